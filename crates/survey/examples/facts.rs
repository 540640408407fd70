//! Prints the explanation of a folder as JSON, or one piece of it: `facts FOLDER [markdown|dot|facts]`.

#![expect(clippy::print_stdout, reason = "a command that prints")]

use std::path::Path;

use sandyard_explain::{JobNotes, explain};
use sandyard_survey::{SurveyLimits, WalkLimits, read_folder, survey};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let piece = std::env::args().nth(2).unwrap_or_default();
    let tree = read_folder(Path::new(&folder), WalkLimits::default())?;
    let facts = survey(&tree, SurveyLimits::default());
    match piece.as_str() {
        "facts" => println!("{}", serde_json::to_string_pretty(&facts)?),
        "markdown" => print!("{}", explain(&facts, &JobNotes::default()).markdown),
        "dot" => print!("{}", explain(&facts, &JobNotes::default()).dot),
        _ => println!("{}", serde_json::to_string(&explain(&facts, &JobNotes::default()))?),
    }
    Ok(())
}
