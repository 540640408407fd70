//! The form in which a driver wants an image, made from the image's tree when a job first needs it. Jobs that need the same
//! one wait for the same making, which goes on when they are cancelled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandyard_sandbox::driver::{Driver, ImageDigest};
use tokio::sync::watch;

use super::caught::caught;
use crate::error_chain::chain;

/// How far a form is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// It is being made; the words are for people.
    Making(String),
    /// Sandboxes can start.
    Ready,
    /// It can't be made.
    Failed(String),
}

/// All forms of one server.
#[derive(Default)]
pub(crate) struct Forms {
    forms: Mutex<HashMap<(&'static str, ImageDigest), watch::Receiver<Form>>>,
}

impl Forms {
    /// The form of a tree for a driver; its making begins if nobody has begun it, or it failed before.
    pub(crate) fn of(&self, driver: &Arc<dyn Driver>, image: &ImageDigest) -> watch::Receiver<Form> {
        let mut forms = self.forms();
        let key = (driver.name(), image.clone());
        if let Some(form) = forms.get(&key)
            && !matches!(*form.borrow(), Form::Failed(_))
        {
            return form.clone();
        }
        let form = make(Arc::clone(driver), image.clone());
        forms.insert(key, form.clone());
        form
    }

    /// What is being made for a driver now.
    pub(crate) fn in_the_making(&self, driver: &str) -> Option<String> {
        self.forms().iter().filter(|((name, _), _)| *name == driver).find_map(|(_, form)| {
            match &*form.borrow() {
                Form::Making(words) if !words.is_empty() => Some(words.clone()),
                Form::Making(_) | Form::Ready | Form::Failed(_) => None,
            }
        })
    }

    /// A start failed: perhaps somebody removed what had been made.
    pub(crate) fn forget(&self, driver: &str) {
        self.forms().retain(|(name, _), form| *name != driver || matches!(*form.borrow(), Form::Making(_)));
    }

    fn forms(&self) -> MutexGuard<'_, HashMap<(&'static str, ImageDigest), watch::Receiver<Form>>> {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make(driver: Arc<dyn Driver>, image: ImageDigest) -> watch::Receiver<Form> {
    let (sender, form) = watch::channel(Form::Making(String::new()));
    tokio::spawn(async move {
        let report = |words: String| {
            sender.send_replace(Form::Making(words));
        };
        let made = caught(driver.prepare_image(&image, &report)).await;
        sender.send_replace(match made {
            Ok(Ok(())) => Form::Ready,
            Ok(Err(error)) => Form::Failed(chain(&error)),
            Err(fault) => Form::Failed(fault),
        });
    });
    form
}
