//! Images: the trees that sandboxes run.
