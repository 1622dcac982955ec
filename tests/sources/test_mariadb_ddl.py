"""What a statement in the log may have changed: known to be harmless, or suspected."""

from __future__ import annotations

import pytest

from headwater.sources.mariadb.ddl import effect_of

HARMLESS = [
    "CREATE TABLE t (id int)",
    "CREATE TABLE IF NOT EXISTS t (id int)",
    "CREATE TEMPORARY TABLE t (id int)",
    "DROP TEMPORARY TABLE IF EXISTS t",
    "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`",
    "CREATE INDEX i ON t (a)",
    "CREATE UNIQUE INDEX i ON t (a)",
    "CREATE DEFINER=`root`@`localhost` TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
    "CREATE OR REPLACE ALGORITHM=UNDEFINED DEFINER=u@'%' SQL SECURITY INVOKER VIEW v AS SELECT 1",
    "DROP VIEW v",
    "ALTER DATABASE d CHARACTER SET utf8mb4",
    "ALTER TABLE t ADD COLUMN z int, ADD INDEX (z), COMMENT = 'drop a, rename b'",
    "ALTER TABLE t ALTER COLUMN a SET DEFAULT 5",
    "ALTER TABLE t AUTO_INCREMENT = 7",
    "ALTER TABLE t ENGINE=InnoDB",
    "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id) ON DELETE RESTRICT",
    "ALTER TABLE t DROP FOREIGN KEY f",
    "ALTER TABLE t RENAME INDEX i TO j",
    "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 4",
    "ALTER TABLE t ADD PARTITION (PARTITION p3 VALUES LESS THAN (30))",
    "ALTER TABLE t REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (9))",
    "ALTER TABLE t REBUILD PARTITION p0, p1",
    "ALTER TABLE t ANALYZE PARTITION p0, p1, p2",
    "ANALYZE TABLE t",
    "OPTIMIZE TABLE t",
    "GRANT SELECT ON t TO u",
    "FLUSH TABLES",
    "SET PASSWORD FOR u = 'x'",
]
WHOLE = [
    "TRUNCATE t",
    "TRUNCATE TABLE `d`.`t`",
    "DROP TABLE x, t",
    "DROP TABLE IF EXISTS d.t",
    "CREATE OR REPLACE TABLE t (id int)",
    "RENAME TABLE t TO u",
    "RENAME TABLE a TO b, u TO t",
    "ALTER TABLE t RENAME u",
    "ALTER TABLE u RENAME TO d.t",
    "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
    "ALTER TABLE t DROP PARTITION p0",
    "ALTER TABLE t DROP PARTITION p0, p1",
    "ALTER TABLE t TRUNCATE PARTITION p0",
    "ALTER TABLE u EXCHANGE PARTITION p0 WITH TABLE t",
    "ALTER TABLE t DISCARD TABLESPACE",
    "ALTER TABLE t IMPORT TABLESPACE",
    "ALTER TABLE t ENGINE = MyISAM",
    "ALTER TABLE t COMMENT 'x' ENGINE MyISAM",
    "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b)",
    "DROP INDEX `PRIMARY` ON t",
    "ALTER IGNORE TABLE t ADD UNIQUE (a)",
    "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE",
    "ALTER TABLE t ADD SYSTEM VERSIONING",
    "ALTER TABLE t SOMETHING NEW",
    "/*!50000 TRUNCATE TABLE t */",
    '-- a word\nTRUNCATE /* another */ "t"',
    "TRUNCATE .t",
    "ALTER TABLE .t ADD SYSTEM VERSIONING",
    "SET STATEMENT alter_algorithm='copy' FOR ALTER IGNORE TABLE t ADD UNIQUE (a)",
    "ALTER TABLE t ADD COLUMN p int DEFAULT 1 REFERENCES p(id) ON DELETE CASCADE",
    "ALTER TABLE t ADD COLUMN (p int REFERENCES p(id) ON DELETE SET NULL)",
]
COLUMNS = {
    "ALTER TABLE t DROP COLUMN a": {"a"},
    "ALTER TABLE t DROP a, DROP IF EXISTS `b`": {"a", "b"},
    "ALTER TABLE t MODIFY COLUMN A bigint NOT NULL": {"a"},
    "ALTER TABLE t CHANGE a b int": {"a", "b"},
    "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a": {"a", "b"},
    "ALTER ONLINE TABLE d.t WAIT 5 DROP COLUMN a, ALGORITHM=INSTANT": {"a"},
    "ALTER TABLE t ADD z enum('x,y', 'drop b'), DROP COLUMN a": {"a"},
    "ALTER TABLE t MODIFY a decimal(10,2), LOCK=NONE": {"a"},
}
EVERYTHING = [
    "INSERT INTO t VALUES (1)",
    "UPDATE x SET a = 1",
    "LOAD DATA INFILE 'x' INTO TABLE t",
    "CALL p()",
    "SET STATEMENT max_statement_time=1 FOR UPDATE t SET a = 1",
    "ANALYZE UPDATE t SET a = 1",
    "WITH x AS (SELECT 1) DELETE FROM t",
    "SOMETHING NEW",
    "DROP SOMETHING NEW",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_a_statement_that_leaves_rows_alone_is_passed_over(text: str) -> None:
    effect = effect_of(text, "d")
    assert not effect.everything
    assert not effect.tables
    assert not effect.columns
    assert not effect.databases


@pytest.mark.parametrize("text", WHOLE)
def test_a_statement_that_may_change_rows_names_its_table(text: str) -> None:
    effect = effect_of(text, "d")
    assert ("d", "t") in effect.tables
    assert not effect.everything


@pytest.mark.parametrize("text", COLUMNS)
def test_a_statement_that_changes_columns_names_these(text: str) -> None:
    effect = effect_of(text, "d")
    assert set(effect.columns[("d", "t")]) == COLUMNS[text]
    assert not effect.tables
    assert not effect.everything


@pytest.mark.parametrize("text", EVERYTHING)
def test_a_statement_whose_rows_are_not_logged_may_have_changed_everything(text: str) -> None:
    assert effect_of(text, "d").everything


def test_a_database_that_is_dropped_takes_its_tables_along() -> None:
    assert effect_of("DROP DATABASE IF EXISTS `D`", "x").databases.keys() == {"d"}


def test_a_table_that_loses_an_index_may_have_lost_its_key() -> None:
    assert effect_of("ALTER TABLE t DROP INDEX i", "d").keys == {("d", "t")}
    assert effect_of("DROP INDEX i ON d.t", "x").keys == {("d", "t")}


@pytest.mark.parametrize("name", ["my$t", "pr€", "bücher", "a_1", "1a"])
def test_a_name_without_quotes_is_read_whole(name: str) -> None:
    assert effect_of(f"TRUNCATE {name}", "d").tables.keys() == {("d", name)}
