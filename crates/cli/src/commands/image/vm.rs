//! Builds an image in the form of virtual machines.

use sandyard_programs::PROGRAMS;
use sandyard_sandbox::image::vm::{KernelSource, VmImage, VmImages};
use sandyard_sandbox::image::{BuildError, Cancellation, Image, ImageStore};

use crate::context::CommandContext;
use crate::errors::CommandError;
use crate::images::{ImageError, builder};
use crate::machine;

/// Downloads a kernel unless the cache has it, and builds initrd and disk. Returns `None` if a signal came first.
pub(super) async fn make(
    context: &CommandContext,
    store: ImageStore,
    image: &Image,
    source: KernelSource,
) -> Result<Option<VmImage>, CommandError> {
    let (cancellation, ui, root) = (Cancellation::default(), context.ui, image.root.clone());
    let images = VmImages::new(store.clone(), PROGRAMS);
    let builder = builder(store, &context.surroundings, cancellation.clone());
    let mut stop = machine::stop_signals();
    let mut making = tokio::task::spawn_blocking(move || {
        ui.note("kernel: fetching it, unless it is there");
        builder.ensure_kernel(&source)?;
        ui.note("disk: making it, unless it is there");
        images.of(&root).map_err(BuildError::from)
    });
    // The build is a blocking task that dropping its handle would not end. A signal therefore asks it to stop
    // and waits, so that no temporary file is left.
    let made = tokio::select! {
        made = &mut making => made,
        () = stop.next() => {
            // The build removes its temporary files before it returns.
            cancellation.cancel();
            making.await
        }
    };
    let flavour = image.flavour;
    match made {
        Ok(Ok(made)) => Ok(Some(made)),
        Ok(Err(BuildError::Cancelled)) => Ok(None),
        Ok(Err(source)) => Err(ImageError::Build { flavour, source }.into()),
        Err(panicked) => Err(std::io::Error::other(panicked).into()),
    }
}
