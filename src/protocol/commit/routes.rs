//! By which ways votes go in the present view.

use alloc::boxed::Box;

use super::fusion::Fusion;
use crate::{
    protocol::{
        exchange::Shape,
        fused::MAX_VALUES,
        nodes::{NodeExchange, Seat},
        parts::Brought,
        view::View,
    },
    rank::Rank,
};

/// The exchanges of a rank in one view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Routes {
    /// As if each rank had a node of its own.
    flat: Route,
    /// By the heads of nodes, where ranks share some.
    placed: Option<Box<Placed>>,
}

/// One exchange.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Route {
    /// Where this rank is in it.
    pub(super) seat: Seat,
    /// The shape of the exchange among heads.
    pub(super) shape: Shape,
    /// The exchange of a block, before it begins.
    pub(super) blank: NodeExchange,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Placed {
    route: Route,
    /// Parts of a fused reduction in its messages, nothing where they do not fit; unknown until
    /// there is such a reduction.
    brought: Option<Option<Brought>>,
}

impl Routes {
    /// Of this rank in a view.
    pub(super) fn new(view: &View, me: Rank) -> Self {
        let route = |seat, shape| Route { seat, shape, blank: NodeExchange::new(seat, shape) };
        let placed = view.has_heads().then(|| {
            let (seat, shape) = (view.seat(me), Shape::BETWEEN_NODES);
            Box::new(Placed { route: route(seat, shape), brought: None })
        });
        Self { flat: route(view.flat_seat(me), view.shape()), placed }
    }

    /// There is a fused reduction in this view.
    #[inline]
    pub(super) fn fuse(&mut self, view: &View) {
        if let Some(placed) = &mut self.placed {
            let Route { seat, shape, .. } = placed.route;
            placed.brought.get_or_insert_with(|| Brought::of(view, seat, shape));
        }
    }

    /// The exchange of a block, and the parts in its messages where there may be several. All ranks
    /// that bring values of one shape choose alike.
    #[inline]
    pub(super) fn of(&self, fusion: Option<&Fusion>) -> (&Route, Option<&Brought>) {
        let Some(placed) = &self.placed else { return (&self.flat, None) };
        match (fusion.and_then(|fusion| fusion.own.get()), &placed.brought) {
            (None, _) => (&placed.route, None),
            (Some(values), Some(Some(brought))) if brought.most * values.count() <= MAX_VALUES => {
                (&placed.route, Some(brought))
            }
            _ => (&self.flat, None),
        }
    }

    /// All exchanges that a block may take.
    pub(super) fn all(&self) -> impl Iterator<Item = &Route> {
        core::iter::once(&self.flat).chain(self.placed.as_ref().map(|placed| &placed.route))
    }
}
