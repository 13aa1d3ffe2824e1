"""cassandra-stress's numbers of clients, one after the other."""
