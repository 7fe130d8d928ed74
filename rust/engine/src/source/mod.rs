//! Bodies that do not come over HTTP: files, descriptors, child processes.
