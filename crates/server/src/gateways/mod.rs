//! Gateways: what a sandbox asks of the world, answered on the host, where the policy and the keys are.

pub(crate) mod egress;
