//! The manifest of a flavour: its parent, its steps, and the share of the time of each.
//!
//! A text of lines `word value…` that shell scripts can read as well.

use super::ImageFlavour;

/// Recipe of one flavour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecipeManifest {
    pub(super) suite: String,
    /// Flavour whose finished tree it starts from; `None` starts from a minimal Debian.
    pub(super) parent: Option<ImageFlavour>,
    /// Share of the work that makes the first tree.
    pub(super) bootstrap: StepShare,
    /// Scripts that run inside the tree, in order.
    pub(super) steps: Vec<RecipeStep>,
    /// Share of the work that checks and stores the result.
    pub(super) save: StepShare,
}

/// A part of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StepShare {
    /// Share of the whole time, in percent.
    pub(super) percent: u8,
    /// Name of the phase, for people.
    pub(super) phase: String,
}

/// A script run inside the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecipeStep {
    /// File name of the script in `scripts/`.
    pub(super) script: String,
    /// Share of the whole work.
    pub(super) share: StepShare,
}

/// A manifest is faulty. Tests find this fault of the recipe.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ManifestError {
    /// A line has an unknown word or a bad value.
    #[error("manifest line `{0}` is not understood")]
    Line(String),
    /// A necessary line is missing.
    #[error("manifest lacks `{0}`")]
    Missing(&'static str),
    /// The shares do not add up to 100.
    #[error("manifest divides {0} percent of the time")]
    Shares(u32),
}

impl RecipeManifest {
    pub(super) fn parse(text: &str) -> Result<Self, ManifestError> {
        let (mut suite, mut parent, mut bootstrap, mut save) = (None, None, None, None);
        let mut steps = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let fault = || ManifestError::Line(line.to_owned());
            let (word, value) = line.split_once(' ').ok_or_else(fault)?;
            match word {
                "suite" => suite = Some(value.to_owned()),
                "parent" if value == "-" => parent = None,
                "parent" => parent = Some(ImageFlavour::parse(value).ok_or_else(fault)?),
                "bootstrap" => bootstrap = Some(StepShare::parse(value).ok_or_else(fault)?),
                "save" => save = Some(StepShare::parse(value).ok_or_else(fault)?),
                "step" => steps.push(RecipeStep::parse(value).ok_or_else(fault)?),
                _ => return Err(fault()),
            }
        }
        let manifest = Self {
            suite: suite.ok_or(ManifestError::Missing("suite"))?,
            parent,
            bootstrap: bootstrap.ok_or(ManifestError::Missing("bootstrap"))?,
            steps,
            save: save.ok_or(ManifestError::Missing("save"))?,
        };
        match manifest.total() {
            100 => Ok(manifest),
            other => Err(ManifestError::Shares(other)),
        }
    }

    fn total(&self) -> u32 {
        let steps: u32 = self.steps.iter().map(|step| u32::from(step.share.percent)).sum();
        u32::from(self.bootstrap.percent) + steps + u32::from(self.save.percent)
    }
}

impl StepShare {
    fn parse(text: &str) -> Option<Self> {
        let (percent, phase) = text.split_once(' ')?;
        Some(Self { percent: percent.parse().ok()?, phase: phase.to_owned() })
    }
}

impl RecipeStep {
    fn parse(text: &str) -> Option<Self> {
        let (script, share) = text.split_once(' ')?;
        Some(Self { script: script.to_owned(), share: StepShare::parse(share)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read() {
        let text = "# words\nsuite bookworm\nparent base\nbootstrap 10 copying\nstep 10-a.sh 80 doing a thing\nsave 10 saving\n";
        let manifest = RecipeManifest::parse(text).unwrap();
        assert_eq!(manifest.parent, Some(ImageFlavour::Base));
        assert_eq!(manifest.steps[0].script, "10-a.sh");
        assert_eq!(manifest.steps[0].share, StepShare { percent: 80, phase: "doing a thing".to_owned() });
    }

    #[test]
    fn faults_are_named() {
        let fault = |text: &str| RecipeManifest::parse(text).unwrap_err();
        assert_eq!(fault("step"), ManifestError::Line("step".to_owned()));
        assert_eq!(fault("parent other"), ManifestError::Line("parent other".to_owned()));
        assert_eq!(fault("suite x\nbootstrap 5 a"), ManifestError::Missing("save"));
        assert_eq!(fault("suite x\nbootstrap 5 a\nsave 5 b"), ManifestError::Shares(10));
    }
}
