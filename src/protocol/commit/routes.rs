//! By which ways votes go in the present view.

use alloc::boxed::Box;

use crate::{
    protocol::{
        exchange::Shape,
        fused::{MAX_VALUES, Values},
        nodes::{NodeExchange, Seat},
        parts::Brought,
        view::View,
    },
    rank::Rank,
};

/// The exchange of a rank in one view.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Route {
    /// Where this rank is in it.
    pub(super) seat: Seat,
    /// The shape of the exchange among heads.
    pub(super) shape: Shape,
    /// The exchange of a block, before it begins.
    pub(super) blank: NodeExchange,
    /// Where ranks of several nodes exchange: the parts of a fused reduction in their messages,
    /// once there is such a reduction.
    parts: Option<Box<Parts>>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Parts {
    Unknown,
    Known(Brought),
    /// There are more than a message has room for.
    TooMany,
}

/// How the values of a fused reduction are combined on their way.
#[derive(Clone, Copy, Debug)]
pub(in crate::protocol) enum Way<'a> {
    /// In the order of the exchange, or in any.
    Plain,
    /// Part by part.
    Parts(&'a Brought),
    /// Not at all: the root of the slow path combines them.
    Gathered,
}

impl Route {
    /// Of this rank in a view.
    pub(super) fn new(view: &View, me: Rank) -> Self {
        let placed = view.has_heads();
        let shape = if placed { Shape::BETWEEN_NODES } else { view.shape() };
        let seat = view.seat(me);
        let parts = placed.then(|| Box::new(Parts::Unknown));
        Self { seat, shape, blank: NodeExchange::new(seat, shape), parts }
    }

    /// There is a fused reduction in this view.
    #[inline]
    pub(super) fn fuse(&mut self, view: &View) {
        if let Some(parts) = &mut self.parts
            && **parts == Parts::Unknown
        {
            let brought = Brought::of(view, self.seat, self.shape);
            **parts = brought.map_or(Parts::TooMany, Parts::Known);
        }
    }

    /// How values are combined, those of this rank being these. All ranks that bring values of one
    /// shape choose alike.
    #[inline]
    pub(super) fn way_of(&self, own: Option<&Values>) -> Way<'_> {
        let (Some(parts), Some(own)) = (&self.parts, own) else { return Way::Plain };
        match &**parts {
            _ if !own.is_ordered() => Way::Plain,
            Parts::Known(brought) if brought.most * own.count() <= MAX_VALUES => {
                Way::Parts(brought)
            }
            _ => Way::Gathered,
        }
    }
}
