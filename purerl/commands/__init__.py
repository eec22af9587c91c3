"""The commands of the command line, one file each with a `command`. A command is imported when it is used."""
