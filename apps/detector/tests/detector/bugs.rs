//! The bugs that can be planted in the protocol of the observers.

fampi_planted::bugs! {
    /// An observer whose neighbour in the ring is lost observes nobody.
    LeaveTheRingOpen,
    /// News of a death are not passed on.
    KeepTheNews,
    /// Nobody minds that another observer knows more, or less.
    CompareNothing,
    /// The processes of a lost node are not reported with it.
    ForgetTheHosted,
    /// A node whose observer was replaced, or that was lost, is heard.
    HearTheDeadNode,
    /// Who is declared dead and lives is not told.
    SpareTheFenced,
    /// Two nodes that hold each other for dead both go.
    FallTogether,
    /// What is said of an older incarnation is believed.
    TakeOldIncarnations,
    /// A node that was lost comes back as it was.
    RaiseTheDead,
    /// A packet that was recorded and sent again is taken.
    TakeReplays,
    /// A packet is taken whoever has written it.
    TrustAnybody,
    /// A packet for another node, or for an older life of this one, is taken.
    TakeWhatIsForOthers,
    /// An answer is measured from the first attempt, whichever it answers.
    MeasureFromTheFirst,
    /// A tester does not mind that it was kept from running itself.
    TrustTheClock,
    /// Tests that were passed before one that failed go on to count.
    KeepTheStreak,
}
