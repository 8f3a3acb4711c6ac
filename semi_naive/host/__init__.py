"""Services of this machine: compiled kernels and their cache, private directories, memory, files, accounts of time."""
