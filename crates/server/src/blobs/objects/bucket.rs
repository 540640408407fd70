//! A bucket: the interface of `object_store`, and listings of folders page by page, which that interface lacks.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{Error, ObjectStore};

/// A bucket of an object store.
pub(super) struct Bucket {
    pub(super) objects: Arc<dyn ObjectStore>,
    /// The same bucket; none of stores in memory.
    pub(super) pages: Option<Arc<dyn PaginatedListStore>>,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without what else the store would print: it holds credentials.
        formatter.write_str("Bucket")
    }
}

impl Bucket {
    /// The first names directly below a prefix that have something below them, behind `after`, in order.
    pub(super) async fn folders(
        &self,
        prefix: &Path,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        let mut names = match &self.pages {
            Some(pages) => self.page(pages.as_ref(), prefix, after, limit).await?,
            None => folder_names(&self.objects.list_with_delimiter(Some(prefix)).await?.common_prefixes),
        };
        names.retain(|name| after.is_none_or(|after| name.as_str() > after));
        names.sort_unstable();
        names.truncate(limit);
        Ok(names)
    }

    async fn page(
        &self,
        pages: &dyn PaginatedListStore,
        prefix: &Path,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        let below = if prefix.as_ref().is_empty() { String::new() } else { format!("{prefix}/") };
        let (mut names, mut page_token) = (Vec::new(), None);
        loop {
            let options = PaginatedListOptions {
                // The letter behind the slash: whatever is below the last name comes before it.
                offset: after.map(|after| format!("{below}{after}0")),
                delimiter: Some(Cow::Borrowed("/")),
                max_keys: Some(limit),
                page_token: page_token.take(),
                ..PaginatedListOptions::default()
            };
            let page = pages.list_paginated(Some(&below), options).await?;
            names.extend(folder_names(&page.result.common_prefixes));
            page_token = page.page_token;
            if names.len() >= limit || page_token.is_none() {
                return Ok(names);
            }
        }
    }

    /// Removes objects. Missing ones count as removed.
    pub(super) async fn remove(&self, paths: Vec<Path>) -> Result<(), Error> {
        let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
        let removed = self.objects.delete_stream(paths);
        let failures = removed.try_filter(|_| std::future::ready(false));
        let mut failures =
            failures.filter(|removed| std::future::ready(!matches!(removed, Err(Error::NotFound { .. }))));
        // To the end: one failure must not keep the other objects.
        let mut first = None;
        while let Some(removed) = failures.next().await {
            first = first.or(removed.err());
        }
        first.map_or(Ok(()), Err)
    }
}

fn folder_names(prefixes: &[Path]) -> Vec<String> {
    prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect()
}
