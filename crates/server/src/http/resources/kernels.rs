//! `/jobs/{id}/kernels`: the kernels of a live sandbox.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use sandyard_api::{
    ApiError, ErrorBody, ErrorCode, KernelListView, KernelRequest, KernelView, is_kernel_name,
};
use sandyard_protocol::{KernelId, KernelInfo};

use super::code::unknown_kernel;
use crate::http::HttpState;
use crate::http::request::body::RequestBody;
use crate::http::request::extract::{PathName, RouteJob};
use crate::http::response::failure::{HttpAnswer, HttpFailure};

/// All kernels, oldest first.
#[utoipa::path(
    get, path = "/jobs/{id}/kernels", tag = "tools",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, body = KernelListView),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(in crate::http) async fn list(State(state): State<HttpState>, RouteJob(job): RouteJob) -> HttpAnswer {
    let kernels = state.machine(&job).await?.list_kernels().await?;
    Ok(Json(KernelListView { kernels: kernels.into_iter().map(view).collect() }).into_response())
}

/// Starts one more kernel. Answers when it waits for code.
#[utoipa::path(
    post, path = "/jobs/{id}/kernels", tag = "tools",
    params(("id" = String, Path, description = "The job")),
    request_body = KernelRequest,
    responses(
        (status = 201, body = KernelView),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
        (status = 422, body = ErrorBody),
    )
)]
pub(in crate::http) async fn start(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    body: RequestBody,
) -> HttpAnswer {
    let (request, _room) = body.json(KernelRequest::from_json).await?;
    let kernel = state.machine(&job).await?.start_kernel(request.language).await?;
    Ok((StatusCode::CREATED, Json(view(kernel))).into_response())
}

/// One kernel.
#[utoipa::path(
    get, path = "/jobs/{id}/kernels/{kernel}", tag = "tools",
    params(("id" = String, Path, description = "The job"), ("kernel" = String, Path, description = "Its name")),
    responses(
        (status = 200, body = KernelView),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(in crate::http) async fn show(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    PathName(kernel): PathName,
) -> HttpAnswer {
    let kernel = named(kernel)?;
    let kernels = state.machine(&job).await?.list_kernels().await?;
    let found = kernels.into_iter().find(|other| other.id == kernel).ok_or_else(|| unknown(&kernel))?;
    Ok(Json(view(found)).into_response())
}

/// Ends a kernel and what it runs.
#[utoipa::path(
    delete, path = "/jobs/{id}/kernels/{kernel}", tag = "tools",
    params(("id" = String, Path, description = "The job"), ("kernel" = String, Path, description = "Its name")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(in crate::http) async fn stop(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    PathName(kernel): PathName,
) -> HttpAnswer {
    state.machine(&job).await?.stop_kernel(named(kernel)?).await.map_err(unknown_kernel)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Interrupts what a kernel runs; harmless if it runs nothing.
#[utoipa::path(
    post, path = "/jobs/{id}/kernels/{kernel}/interrupt", tag = "tools",
    params(("id" = String, Path, description = "The job"), ("kernel" = String, Path, description = "Its name")),
    responses(
        (status = 204, description = "It was told"),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(in crate::http) async fn interrupt(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    PathName(kernel): PathName,
) -> HttpAnswer {
    state.machine(&job).await?.interrupt_kernel(named(kernel)?).await.map_err(unknown_kernel)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Gives a kernel a fresh process; what it runs or has waiting is ended.
#[utoipa::path(
    post, path = "/jobs/{id}/kernels/{kernel}/restart", tag = "tools",
    params(("id" = String, Path, description = "The job"), ("kernel" = String, Path, description = "Its name")),
    responses(
        (status = 200, body = KernelView),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(in crate::http) async fn restart(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    PathName(kernel): PathName,
) -> HttpAnswer {
    let kernel = state.machine(&job).await?.restart_kernel(named(kernel)?).await.map_err(unknown_kernel)?;
    Ok(Json(view(kernel)).into_response())
}

/// The id of a kernel. A malformed name is an unknown kernel.
fn named(kernel: String) -> Result<KernelId, HttpFailure> {
    let kernel = KernelId(kernel);
    if is_kernel_name(&kernel.0) { Ok(kernel) } else { Err(unknown(&kernel)) }
}

fn unknown(kernel: &KernelId) -> HttpFailure {
    let shown: String = kernel.0.chars().take(64).collect();
    ApiError::new(ErrorCode::UnknownKernel, format!("there is no kernel `{shown}`"))
        .with_hint("GET /jobs/{id}/kernels lists them; POST there makes one")
        .into()
}

fn view(kernel: KernelInfo) -> KernelView {
    KernelView {
        kernel: kernel.id.0,
        language: kernel.language,
        state: kernel.state,
        queued: kernel.queued,
        execution_count: kernel.execution_count,
        connection_file: kernel.connection_file,
    }
}
