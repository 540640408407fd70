//! PostgreSQL servers for tests. Tests of one user share a server, whichever process they are in, and each has a database of its own;
//! a test of faults has a server of its own.
//!
//! A server listens on a socket in its folder below `/tmp` and nowhere else. A small shell process keeps it: when no test has used it
//! for a few seconds, it ends the server and removes the folder, however the tests ended.

mod keeper;
mod programs;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use keeper::ClusterUse;
use programs::Programs;

/// A test's own database, on a server that others may share. Dropping it removes the database.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    cluster: TestCluster,
}

/// A running PostgreSQL server.
#[derive(Debug)]
pub struct TestCluster {
    folder: PathBuf,
    programs: Programs,
    /// The server lives for as long as somebody holds one.
    _used: ClusterUse,
}

/// Distinguishes databases of one process.
static DATABASES: AtomicU64 = AtomicU64::new(0);

impl TestDatabase {
    /// Makes an empty database on the shared server. `None`, with a word on stderr, if this machine has no PostgreSQL.
    pub fn fresh() -> Option<Self> {
        Self::on(TestCluster::shared()?)
    }

    /// Makes an empty database on a server of its own, which may be restarted.
    pub fn alone() -> Option<Self> {
        Self::on(TestCluster::alone()?)
    }

    fn on(cluster: TestCluster) -> Option<Self> {
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        // Left by a process of the same number, if at all.
        cluster.run("dropdb", &["--if-exists", "--force", &name]);
        if !cluster.run("createdb", &[&name]) {
            return skipped("a PostgreSQL that makes databases");
        }
        Some(Self { name, cluster })
    }

    /// The address of the database.
    pub fn url(&self) -> String {
        let folder = self.cluster.folder.display().to_string().replace('/', "%2F");
        format!("postgres://{}@/{}?host={folder}", programs::SUPERUSER, self.name)
    }

    /// Restarts the server as after a crash: what was not committed is lost, and every connection is cut.
    pub fn crash_server(&self) -> bool {
        self.cluster.restart()
    }

    /// Cuts all connections to the database.
    pub fn cut_connections(&self) -> bool {
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()",
            self.name
        );
        self.cluster.run("psql", &["--quiet", "--dbname=postgres", "--command", &sql])
    }

    /// Runs SQL in the database and returns its rows as text, with `|` between columns.
    pub fn ask(&self, sql: &str) -> String {
        let arguments = ["--no-align", "--tuples-only", "--dbname", self.name.as_str(), "--command", sql];
        self.cluster.programs.output("psql", &self.cluster.folder, &arguments)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        self.cluster.run("dropdb", &["--if-exists", "--force", &self.name]);
    }
}

impl TestCluster {
    /// The server that all tests of this user share; starts it if nobody has.
    fn shared() -> Option<Self> {
        let user = rustix::process::geteuid().as_raw();
        Self::at(PathBuf::from(format!("/tmp/sandyard-postgres-{user}")))
    }

    fn alone() -> Option<Self> {
        let number = DATABASES.fetch_add(1, Ordering::Relaxed);
        let user = rustix::process::geteuid().as_raw();
        Self::at(PathBuf::from(format!("/tmp/sandyard-postgres-{user}-{}-{number}", std::process::id())))
    }

    fn at(folder: PathBuf) -> Option<Self> {
        let Some(programs) = Programs::find() else { return skipped("PostgreSQL") };
        match keeper::enter(&folder, &programs) {
            Ok(used) => Some(Self { folder, programs, _used: used }),
            Err(error) => skipped(&format!("a PostgreSQL that starts ({error})")),
        }
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        self.programs.run(program, &self.folder, arguments)
    }

    fn restart(&self) -> bool {
        let data = keeper::data(&self.folder);
        self.programs.control(&data, &self.folder, &["restart", "--mode=immediate"])
    }
}

/// The suite counts tests that say this.
#[expect(clippy::print_stderr, reason = "the report of a test")]
fn skipped<T>(need: &str) -> Option<T> {
    eprintln!("skipped: needs {need}");
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_has_a_database_of_its_own() {
        let (Some(one), Some(other)) = (TestDatabase::fresh(), TestDatabase::fresh()) else { return };
        one.ask("CREATE TABLE only_here (x int)");
        let tables = "SELECT COUNT(*) FROM pg_tables WHERE tablename = 'only_here'";
        assert_eq!((one.ask(tables).trim(), other.ask(tables).trim()), ("1", "0"));
        assert!(one.url().starts_with("postgres://sandyard@/test_"));
    }
}
