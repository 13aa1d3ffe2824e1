"""kvmark stress beside cassandra-stress and cql-stress."""
