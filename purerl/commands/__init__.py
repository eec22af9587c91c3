"""The commands of the command line, one per file, each as `command`; imported when it is asked for."""
