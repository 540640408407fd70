//! A live machine: typed calls of the guest protocol over one link.
