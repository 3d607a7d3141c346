//! Operations of the application that are under way, and the communicators they run on.

pub(super) mod contexts;
pub(super) mod data;
pub(super) mod external;
pub(super) mod in_flight;
pub(super) mod platform;
pub(super) mod users_requests;
