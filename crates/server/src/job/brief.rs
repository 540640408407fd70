//! What a job was asked to do, in a few words: by these, people tell jobs apart in a list.

use super::request::NewJob;

/// Characters of the task or code.
const INPUT_CHARS: usize = 200;
/// Estimated bytes of a brief without its texts.
const BRIEF_BYTES: u64 = 256;

/// The parts of a request that a status shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobBrief {
    /// The beginning of the task or code; `None` for a session.
    pub input: Option<String>,
    /// Hosts that the job may reach.
    pub egress: Vec<String>,
    /// Names of the environment variables. The values may be secrets.
    pub env_names: Vec<String>,
    /// Model of a task.
    pub model: Option<String>,
}

impl JobBrief {
    pub(crate) fn of(job: &NewJob) -> Self {
        let input: String = job.code.trim().chars().take(INPUT_CHARS).collect();
        Self {
            input: (!input.is_empty()).then_some(input),
            egress: job.egress.clone(),
            env_names: job.env.keys().cloned().collect(),
            model: job.task.model.clone(),
        }
    }

    /// Returns the brief for a list: with the first line of the input.
    pub(crate) fn in_list(&self) -> Self {
        let line = self.input.as_deref().and_then(|input| input.lines().next());
        Self { input: line.map(|line| line.trim_end().to_owned()), ..self.clone() }
    }

    /// Bytes that it takes in memory, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        let texts = self.input.iter().chain(&self.model).chain(&self.egress).chain(&self.env_names);
        BRIEF_BYTES + texts.map(|text| text.len() as u64 + 24).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_shows_the_first_line() {
        let brief = JobBrief { input: Some("set -e  \necho hi".into()), ..JobBrief::default() };
        assert_eq!(brief.in_list().input.as_deref(), Some("set -e"));
        assert_eq!(JobBrief::default().in_list().input, None);
    }
}
