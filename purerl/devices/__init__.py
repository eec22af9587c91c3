"""The machine: the mesh, several processes, memory, threads."""
