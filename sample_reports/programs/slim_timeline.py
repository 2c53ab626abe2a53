"""Removes from an SQLite file of `nsys export` what is about the machine and not about the program: its other
processes, its environment, its paths. Events stay as they are but for the call stacks of OS calls.

Usage: python3 slim_timeline.py EXPORT OUT
"""

import pathlib
import re
import shutil
import sqlite3
import sys

MACHINE_FACTS = (
    "CpuArchitecture",
    "CpuCores",
    "CpuDescription",
    "CudaDriverVersion",
    "NvDriverVersion",
    "OsDescription",
)


def tables(database: sqlite3.Connection) -> dict[str, str]:
    """The statement that made each table, by the table's name."""
    return dict(database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))


def columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]


def drop_other_processes(database: sqlite3.Connection) -> None:
    """Keeps the names of processes and threads that have events."""
    threads = " UNION ".join(
        f"SELECT globalTid FROM {table}"
        for table in tables(database)
        if table != "ThreadNames" and "globalTid" in columns(database, table)
    )
    database.execute(f"DELETE FROM ThreadNames WHERE globalTid NOT IN ({threads})")
    database.execute(f"DELETE FROM PROCESSES WHERE globalPid NOT IN (SELECT globalTid & ~0xFFFFFF FROM ({threads}))")


def drop_machine(database: sqlite3.Connection) -> None:
    facts = ", ".join("?" * len(MACHINE_FACTS))
    database.execute(f"DELETE FROM TARGET_INFO_SYSTEM_ENV WHERE name NOT IN ({facts})", MACHINE_FACTS)
    database.execute(
        "DELETE FROM META_DATA_CAPTURE WHERE name LIKE '%:ENVIRONMENT_VARIABLE' OR name LIKE '%:WORKING_DIR'"
    )
    database.execute("DELETE FROM META_DATA_EXPORT WHERE name LIKE '%_PATH_ABS'")
    for row, path in database.execute("SELECT rowid, value FROM META_DATA_CAPTURE WHERE value LIKE '/%'").fetchall():
        database.execute("UPDATE META_DATA_CAPTURE SET value = ? WHERE rowid = ?", (pathlib.Path(path).name, row))
    database.execute("DELETE FROM ProcessStreams")
    if "OSRT_CALLCHAINS" in tables(database):
        database.execute("DELETE FROM OSRT_CALLCHAINS")
        database.execute("UPDATE OSRT_API SET callchainId = 0")


def drop_unused_texts(database: sqlite3.Connection) -> None:
    used = " UNION ".join(
        f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"
        for table, statement in tables(database).items()
        for column in re.findall(r"(\w+) [^\n]*-- REFERENCES StringIds\(id\)", statement)
    )
    database.execute(f"DELETE FROM StringIds WHERE id NOT IN ({used})")


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python3 slim_timeline.py EXPORT OUT")
    shutil.copyfile(sys.argv[1], sys.argv[2])
    database = sqlite3.connect(sys.argv[2])
    with database:
        drop_other_processes(database)
        drop_machine(database)
        drop_unused_texts(database)
    # Most tables are lists of a few rows: small pages waste less of them.
    database.execute("PRAGMA page_size = 1024")
    database.execute("VACUUM")
    database.close()


if __name__ == "__main__":
    main()
