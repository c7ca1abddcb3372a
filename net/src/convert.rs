//! Wire messages to the vocabulary of `common`, and back. Bytes become types here and nowhere else.
//!
//! Every function that reads a value from outside gets the path of its field, and names it in
//! [`InvalidField`](coalloc_common::InvalidField), with the value and the allowed range.
//!
//! Left out: transport and status codes. Source: the comments of the schema in `coalloc_proto`.

mod alternatives;
mod bookings;
mod claims;
mod federation;
mod hold;
mod hours;
mod inner;
mod levels;
mod objective;
mod plan;
mod refusal;
mod request;
mod servers;
mod task;
mod time;
mod update;
mod workflow;

pub use alternatives::smaller_to_wire;
pub use bookings::{compare_from_wire, compare_to_wire, compared_from_wire, compared_to_wire};
pub use claims::{Claims, Described, own_part};
pub use federation::{
    check_references, file_topology, others_to_wire, path_resources, site_resources, taken,
    topology_of_descriptions,
};
pub use hold::{
    booking_to_wire, data_plane_to_wire, end_answer_from_wire, hold_answer_from_wire,
    hold_from_wire, hold_to_wire, replaced_from_wire,
};
pub use hours::{HoursFields, hours_to_wire};
pub use inner::{InnerPlan, inner_network};
pub use levels::service_levels;
pub use objective::{objective_to_wire, objectives_from_wire, price_from_wire};
pub use plan::{plan_digest, plan_from_wire, plan_to_wire, segments_from_wire, segments_to_wire};
pub use refusal::{denial, refusal_from_wire, refusal_to_wire};
pub use request::{
    RequestOptions, amounts_to_wire, check_series, plan_options, request_from_wire, user_name,
};
pub use servers::{
    DeclaredServer, DeclaredServers, choice_from_wire, choice_to_wire, declared_servers,
    granted_from_wire, granted_to_wire, picked_from_wire, property_from_wire, site_cpus,
    wish_from_wire, wish_to_wire,
};
pub use task::{
    ParsedTask, ParsedTaskOptions, check_task_options, effort_to_wire, found_to_wire,
    task_from_wire, task_options, whole_to_wire,
};
pub use time::{
    span_from_wire, span_to_wire, time_from_wire, time_to_wire, window_from_wire, window_to_wire,
};
pub use update::{
    update_from_wire, update_policy_from_wire, update_policy_to_wire, update_to_wire,
};
pub use workflow::{
    ParsedWorkflow, ParsedWorkflowOptions, merged_sets, schedule_from_wire,
    workflow_answer_to_wire, workflow_effort_to_wire, workflow_from_wire, workflow_options,
    workflow_plan_to_wire, workflow_refusal_to_wire, workflow_version_to_wire,
};
