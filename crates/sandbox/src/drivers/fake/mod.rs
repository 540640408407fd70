//! A driver in memory, with scripted faults.
