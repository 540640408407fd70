//! Errors for logs and people: the error and its causes on one line.

use std::error::Error;
use std::fmt;

/// Displays an error and all its causes, separated by colons.
#[derive(Debug, Clone, Copy)]
pub struct ErrorChain<'a>(pub &'a dyn Error);

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(formatter, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Failure(&'static str, Option<Box<Self>>);

    impl fmt::Display for Failure {
        fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str(self.0)
        }
    }

    impl Error for Failure {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &dyn Error)
        }
    }

    #[test]
    fn each_cause_is_shown_once() {
        let cause = Failure("open `a`", Some(Box::new(Failure("no such file", None))));
        let error = Failure("read the settings", Some(Box::new(cause)));
        assert_eq!(ErrorChain(&error).to_string(), "read the settings: open `a`: no such file");
    }
}
