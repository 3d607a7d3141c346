//! `fampi figure`: figures of other papers beside ours, each by the name of its test.

use anyhow::Result;
use clap::Subcommand;

use crate::detector::figures;
use crate::ring_token;
use crate::workspace::Workspace;

#[derive(Subcommand)]
pub(crate) enum Figure {
    /// Pass tokens around a ring that loses processes, real and simulated: figures 1 and 2 of
    /// Bland 2012
    RingToken(ring_token::Options),
    /// Lose processes and nodes, real and simulated, and measure what watching them costs: figures
    /// 7 to 15 of Zhong 2019
    Detector(figures::Options),
}

pub(crate) fn main(workspace: &Workspace, figure: &Figure) -> Result<u8> {
    match figure {
        Figure::RingToken(options) => ring_token::main(workspace, options),
        Figure::Detector(options) => figures::main(workspace, options),
    }
}
