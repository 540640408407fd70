//! The table of routes: every request that the API takes.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::RouteDocument::Undocumented;
use super::RouteMethod::{Any, Delete, Get, Patch, Post, Put};
use super::{Route, RouteDocument, documented};
use crate::app::TicketTarget;
use crate::auth::AccessScope::{ReadJobs, ReadYard, UseSandbox, WriteJobs};
use crate::http::audit_layer::actions;
use crate::http::proxy::program;
use crate::http::resources::{
    audit, code, context, desktop, download, events, explanation, files, files_change, gui, jobs, kernels,
    lab, logs, processes, recall, recording, schedule, shell, stats, status, terminal, tickets, yard,
};
use crate::http::response::unknown_route::unknown_route;
use crate::http::rules::AccessRule::{Key, Person, Public, Ticket};
use crate::http::rules::AuditRule::{self, InCommit, Recorded, Unrecorded};
use crate::http::rules::TicketRule;
use crate::http::{mcp, pages};

/// Why a public page or a fact about the server is in no audit.
const ABOUT_NO_JOB: AuditRule = Unrecorded("it is about no job");
/// Why reading a job is in no audit.
const ONLY_WATCHES: AuditRule = Unrecorded("it only watches the job, and a watcher asks all the time");
/// Why a path without a slash at its end is not documented.
const ALIAS: RouteDocument = Undocumented("an alias of the path with a slash");
/// Why changes of the workspace itself are not documented.
const REFUSED: RouteDocument = Undocumented("refused with a better reason than an unknown method");

/// A documented route: method, path, handler and the type that the attribute `utoipa::path` made for it, access, audit.
macro_rules! row {
    ($method:ident $path:expr => $module:ident :: $handler:ident [$document:ident], $access:expr, $audit:expr) => {
        Route::new($method, $path, $module::$handler, $access, $audit, documented::<$module::$document>())
    };
}

/// Returns all routes of the service. A path that is not here has no handler.
pub(in crate::http) fn routes() -> Vec<Route> {
    let mut routes = about_the_server();
    routes.extend(about_jobs());
    routes.extend(on_sandboxes());
    routes.extend(on_files());
    routes.extend(on_ports());
    routes
}

fn about_the_server() -> Vec<Route> {
    vec![
        row!(Get "/" => pages::home [__path_home], Public, ABOUT_NO_JOB),
        row!(Get "/console/{*path}" => pages::console [__path_console], Public, ABOUT_NO_JOB),
        row!(Get "/docs" => pages::docs [__path_docs], Public, ABOUT_NO_JOB),
        Route::new(Get, "/assets/{*path}", pages::asset, Public, ABOUT_NO_JOB, Undocumented("part of pages")),
        // Browsers ask for it by themselves; a refusal for want of a key would only confuse.
        Route::new(Any, "/favicon.ico", unknown_route, Public, ABOUT_NO_JOB, Undocumented("there is none")),
        row!(Get "/openapi.json" => pages::openapi [__path_openapi], Public, ABOUT_NO_JOB),
        row!(Get "/healthz" => yard::healthz [__path_healthz], Public, ABOUT_NO_JOB),
        row!(Get "/readyz" => yard::readyz [__path_readyz], Public, ABOUT_NO_JOB),
        row!(Get "/metrics" => yard::metrics [__path_metrics], Key(ReadYard), ABOUT_NO_JOB),
        row!(Get "/version" => yard::version [__path_version], Key(ReadYard), ABOUT_NO_JOB),
        row!(Get "/settings" => yard::settings [__path_settings], Key(ReadYard), ABOUT_NO_JOB),
        row!(Get "/audit" => audit::read_yard [__path_read_yard], Key(ReadYard), ABOUT_NO_JOB),
        row!(Get "/drivers" => yard::drivers [__path_drivers], Key(ReadYard), ABOUT_NO_JOB),
        row!(Any "/mcp" => mcp::message [__path_message], Key(ReadYard), Unrecorded("its tools call other routes, which are recorded")),
    ]
}

fn about_jobs() -> Vec<Route> {
    let download = Ticket(ReadJobs, TicketRule::Get(TicketTarget::Download));
    let explained = TicketRule::Get(TicketTarget::Explanation);
    vec![
        row!(Post "/schedule" => schedule::schedule [__path_schedule], Key(WriteJobs), InCommit),
        row!(Post "/submit" => schedule::submit [__path_submit], Key(WriteJobs), InCommit),
        row!(Get "/status/{id}" => status::status [__path_status], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs" => jobs::list [__path_list], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}" => status::job [__path_job], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/request" => schedule::request [__path_request], Key(WriteJobs), ONLY_WATCHES),
        row!(Delete "/jobs/{id}" => jobs::remove [__path_remove], Key(WriteJobs), InCommit),
        row!(Post "/jobs/{id}/cancel" => jobs::cancel [__path_cancel], Key(WriteJobs), InCommit),
        row!(Post "/jobs/{id}/extend" => jobs::extend [__path_extend], Key(WriteJobs), Recorded(actions::extend)),
        row!(Get "/jobs/{id}/stats" => stats::follow [__path_follow], Key(ReadJobs), ONLY_WATCHES),
        row!(Post "/jobs/{id}/reply" => jobs::reply [__path_reply], Key(WriteJobs), InCommit),
        // The scope of the ticket's purpose is checked where the ticket is made.
        row!(Post "/jobs/{id}/tickets" => tickets::make [__path_make], Key(ReadJobs), Recorded(actions::ticket)),
        row!(Get "/jobs/{id}/events" => events::follow [__path_follow], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/logs" => logs::read [__path_read], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/frames" => recording::frames [__path_frames], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/frames/{picture}" => recording::picture [__path_picture], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/usage" => recording::usage [__path_usage], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/terminal.cast" => recording::terminal [__path_terminal], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/download" => download::read [__path_read], download, Recorded(actions::download)),
        row!(Get "/jobs/{id}/explained" => explanation::page [__path_page], Person(ReadJobs, Some(explained)), ONLY_WATCHES),
        row!(Get "/jobs/{id}/diagram.svg" => explanation::diagram [__path_diagram], Ticket(ReadJobs, explained), ONLY_WATCHES),
        row!(Get "/jobs/{id}/diagram.dot" => explanation::graph [__path_graph], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/explanation" => explanation::facts [__path_facts], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/recall" => recall::find [__path_find], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/context" => context::show [__path_show], Key(ReadJobs), ONLY_WATCHES),
        row!(Get "/jobs/{id}/audit" => audit::read [__path_read], Key(ReadJobs), ONLY_WATCHES),
    ]
}

fn on_sandboxes() -> Vec<Route> {
    let mut routes = on_desktops();
    routes.extend(on_kernels());
    let terminal = Ticket(UseSandbox, TicketRule::Upgrade(TicketTarget::Pty));
    routes.extend([
        row!(Post "/jobs/{id}/shell" => shell::run [__path_run], Key(UseSandbox), Recorded(actions::shell)),
        row!(Get "/jobs/{id}/shell" => terminal::open [__path_open], terminal, Recorded(actions::terminal)),
        row!(Get "/jobs/{id}/processes" => processes::list [__path_list], Key(UseSandbox), ONLY_WATCHES),
        row!(Get "/jobs/{id}/processes/{process}" => processes::attach [__path_attach], terminal, Recorded(actions::process)),
        row!(Post "/jobs/{id}/processes/{process}/signal" => processes::signal [__path_signal], Key(UseSandbox), Recorded(actions::signal)),
        row!(Post "/jobs/{id}/code" => code::run [__path_run], Key(UseSandbox), Recorded(actions::code)),
        row!(Get "/jobs/{id}/code/{execution}" => code::attach [__path_attach], Key(UseSandbox), ONLY_WATCHES),
    ]);
    routes
}

fn on_desktops() -> Vec<Route> {
    let socket = Ticket(UseSandbox, TicketRule::Upgrade(TicketTarget::Desktop));
    let same_page = Unrecorded("the page is the same for every job; its socket is recorded");
    vec![
        row!(Post "/jobs/{id}/gui" => gui::act [__path_act], Key(UseSandbox), Recorded(actions::gui)),
        row!(Get "/jobs/{id}/screenshot.png" => gui::screenshot [__path_screenshot], Key(ReadJobs), Recorded(actions::screenshot)),
        // The page says the same for every job, known or not; its ticket is for the socket that it opens.
        Route::new(Get, "/jobs/{id}/desktop", desktop::with_slash, Public, same_page, ALIAS),
        row!(Get "/jobs/{id}/desktop/" => desktop::page [__path_page], Public, same_page),
        row!(Get "/jobs/{id}/desktop/socket" => desktop::socket [__path_socket], socket, Recorded(actions::desktop)),
    ]
}

fn on_kernels() -> Vec<Route> {
    vec![
        row!(Get "/jobs/{id}/kernels" => kernels::list [__path_list], Key(UseSandbox), ONLY_WATCHES),
        row!(Post "/jobs/{id}/kernels" => kernels::start [__path_start], Key(UseSandbox), Recorded(actions::kernel)),
        row!(Get "/jobs/{id}/kernels/{kernel}" => kernels::show [__path_show], Key(UseSandbox), ONLY_WATCHES),
        row!(Delete "/jobs/{id}/kernels/{kernel}" => kernels::stop [__path_stop], Key(UseSandbox), Recorded(actions::kernel)),
        row!(Post "/jobs/{id}/kernels/{kernel}/interrupt" => kernels::interrupt [__path_interrupt], Key(UseSandbox), Recorded(actions::kernel)),
        row!(Post "/jobs/{id}/kernels/{kernel}/restart" => kernels::restart [__path_restart], Key(UseSandbox), Recorded(actions::kernel)),
    ]
}

fn on_files() -> Vec<Route> {
    const FILE: &str = "/jobs/{id}/files/{*path}";
    const ROOT: &str = "/jobs/{id}/files/";
    let (access, recorded) = (Key(UseSandbox), Recorded(actions::file));
    let mut routes = vec![
        row!(Get FILE => files::read [__path_read], access, recorded),
        row!(Put FILE => files_change::write [__path_write], access, recorded),
        row!(Patch FILE => files_change::change [__path_change], access, recorded),
        row!(Delete FILE => files_change::remove [__path_remove], access, recorded),
        row!(Get ROOT => files::read_root [__path_read_root], access, recorded),
        Route::new(Get, "/jobs/{id}/files", files::read_root, access, recorded, ALIAS),
    ];
    for path in [ROOT, "/jobs/{id}/files"] {
        routes.push(Route::new(Put, path, files_change::write, access, recorded, REFUSED));
        routes.push(Route::new(Patch, path, files_change::change, access, recorded, REFUSED));
        routes.push(Route::new(Delete, path, files_change::remove, access, recorded, REFUSED));
    }
    routes
}

fn on_ports() -> Vec<Route> {
    let lab_ticket = TicketRule::Get(TicketTarget::Lab);
    vec![
        row!(Get "/lab" => lab::any [__path_any], Person(WriteJobs, None), Unrecorded("it leads to the lab of a job, which is recorded; a job that it makes is too")),
        row!(Get "/jobs/{id}/lab" => lab::lab [__path_lab], Person(UseSandbox, Some(lab_ticket)), Recorded(actions::lab)),
        row!(Get "/jobs/{id}/ports/{port}" => lab::port [__path_port], Person(UseSandbox, Some(TicketRule::Port)), Recorded(actions::port)),
        row!(Any "/jobs/{id}/proxy/{port}" => program::connection [__path_connection], Key(UseSandbox), Recorded(actions::port)),
        row!(Any "/jobs/{id}/proxy/{port}/" => program::root [__path_root], Key(UseSandbox), Recorded(actions::port)),
        row!(Any "/jobs/{id}/proxy/{port}/{*path}" => program::pass_on [__path_pass_on], Key(UseSandbox), Recorded(actions::port)),
    ]
}

/// True if every route of a path is public.
pub(in crate::http) fn is_public(path: &str) -> bool {
    static PUBLIC: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
        let routes = routes();
        let closed: BTreeSet<_> =
            routes.iter().filter(|row| row.rule.access.scope().is_some()).map(|row| row.path).collect();
        routes.iter().map(|row| row.path).filter(|path| !closed.contains(path)).collect()
    });
    PUBLIC.contains(path)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
