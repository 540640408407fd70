//! Prints the explanation of a folder as JSON, or one piece of it: `facts FOLDER [markdown|dot|facts|page]`. For measurements
//! and for looking at pages without building the whole command; `page` runs `dot`, unconfined.

#![expect(clippy::print_stdout, reason = "a command that prints")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use sandyard_explain::page::{PageDiagram, explained_page};
use sandyard_explain::{Explanation, JobNotes, explain};
use sandyard_survey::{SurveyLimits, WalkLimits, read_folder, survey};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let piece = std::env::args().nth(2).unwrap_or_default();
    let tree = read_folder(Path::new(&folder), WalkLimits::default())?;
    let facts = survey(&tree, SurveyLimits::default());
    match piece.as_str() {
        "facts" => println!("{}", serde_json::to_string_pretty(&facts)?),
        "markdown" => print!("{}", explain(&facts, &JobNotes::default()).markdown),
        "page" => print!("{}", page(&explain(&facts, &JobNotes::default()))?),
        "dot" => print!("{}", explain(&facts, &JobNotes::default()).dot),
        _ => println!("{}", serde_json::to_string(&explain(&facts, &JobNotes::default()))?),
    }
    Ok(())
}

fn page(explanation: &Explanation) -> Result<String, Box<dyn std::error::Error>> {
    let mut diagrams = vec![diagram("", "", &explanation.dot)?];
    for part in &explanation.parts {
        if let Some(dot) = &part.dot {
            diagrams.push(diagram(&part.slug, &part.name, dot)?);
        }
    }
    Ok(explained_page(&explanation.name, &explanation.markdown, &diagrams, &|link| Some(link.to_owned())))
}

fn diagram(slug: &str, name: &str, dot: &str) -> Result<PageDiagram, Box<dyn std::error::Error>> {
    let mut child = Command::new("dot").arg("-Tsvg").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("dot has no input")?.write_all(dot.as_bytes())?;
    let svg = String::from_utf8(child.wait_with_output()?.stdout)?;
    Ok(PageDiagram { slug: slug.to_owned(), name: name.to_owned(), svg })
}
