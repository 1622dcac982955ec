"""PostgreSQL databases as sources: logical replication or triggers, answers by snapshot."""
