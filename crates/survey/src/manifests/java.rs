//! `pom.xml` and Gradle files, as far as a scan for tags and quotes can tell.

use sandyard_explain::facts::{CommandFact, CommandPurpose, ManifestFact};

use crate::manifests::TreeManifests;

/// Text of the first element of this name.
fn element<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    let start = text.split_once(&format!("<{name}>"))?.1;
    start.split_once(&format!("</{name}>")).map(|(inner, _)| inner.trim())
}

pub(super) fn pom(_: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    // The parent has an artifactId of its own, before the project's.
    let own = text.split_once("</parent>").map_or(text, |(_, rest)| rest);
    let head = own.split("<dependencies>").next().unwrap_or(own);
    fact.name = element(head, "artifactId").map(str::to_owned);
    fact.description = element(head, "description").map(str::to_owned);
    let dependencies = text.split("<dependency>").skip(1).take(200);
    fact.dependencies =
        dependencies.filter_map(|part| element(part, "artifactId").map(str::to_owned)).collect();
    let command = |purpose, command: &str| CommandFact { purpose, command: command.to_owned() };
    fact.commands =
        vec![command(CommandPurpose::Build, "mvn package"), command(CommandPurpose::Test, "mvn test")];
}

pub(super) fn gradle(_: &mut TreeManifests, _: &str, text: &str, fact: &mut ManifestFact) {
    let lines = text.lines().map(str::trim);
    let wanted = lines.filter(|line| line.starts_with("implementation") || line.starts_with("api"));
    let names =
        wanted.filter_map(|line| line.split(['"', '\'']).nth(1)).filter_map(|name| name.split(':').nth(1));
    fact.dependencies = names.map(str::to_owned).collect();
    let command = |purpose, command: &str| CommandFact { purpose, command: command.to_owned() };
    fact.commands =
        vec![command(CommandPurpose::Build, "gradle build"), command(CommandPurpose::Test, "gradle test")];
}
