"""hamiltonian."""
