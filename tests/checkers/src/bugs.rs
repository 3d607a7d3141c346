//! The bugs that can be planted in the machines of the protocol and in the engine.

fampi_planted::bugs! {
    /// The fast path goes on after the promise to the slow path.
    BreakThePromise,
    /// A death does not end the fast path of a block.
    WaitForTheDead,
    /// Votes of different views are combined.
    MixViews,
    /// Attempts in different data contexts can be committed.
    MixContexts,
    /// A decision of a lower ballot is taken, from the dead too.
    TakeAnyBallot,
    /// A contribution goes to one parent only, even if that parent dies.
    ContributeOnce,
    /// A rank contributes before its youngest child has.
    SkipAChild,
    /// A rank that decided contributes its vote as if it had not.
    DenyTheDecision,
    /// The tree does not mend: the parent may be dead.
    KeepADeadParent,
    /// A decision is delivered and not relayed.
    KeepTheDecision,
    /// A rank that decided does not answer who asks.
    DecideAndLeave,
    /// What a rank asks or contributes does not tell of the deaths that it knows.
    KeepNews,
    /// Messages of ranks known to be dead are taken.
    HearTheDead,
    /// Blocks are forgotten as soon as they are decided here.
    ForgetEarly,
    /// The floor of the others is not merged into ours.
    OwnFloor,
    /// A death that an earlier block reported is reported again.
    ReportAgain,
    /// The farewell of a rank that leaves the job is combined with votes on a block.
    MatchFarewells,
    /// A death that a step of a recovery has found is left out of the reports of blocks.
    HushTheDeath,
    /// A rank that gave up does not vote when it is asked.
    LeaveInSilence,
    /// A rank that gave up does not tell those that wait for it.
    SlipAway,
    /// An interruption is not passed on.
    KeepTheInterruption,
    /// What was made is used although not all have it.
    SkipTheConfirmation,
    /// Replacements do not get the ranks of those that they replace.
    SwapRanks,
    /// Replacements go on with a universe that those who spawned them may have given up.
    OutliveTheElders,
    /// A dead spare is given a rank.
    UseADeadSpare,
    /// After an abort the next attempt runs in the data context of the last.
    KeepTheContext,
    /// What MPI says of a request is told as it is, whatever it only follows from.
    BelieveTheClass,
    /// After a death the next attempts run in contexts that nobody can make any more.
    RunOutOfContexts,
    /// Whoever waits in an interrupted block goes on waiting.
    WaitInTheInterrupted,
    /// The copies of a block become valid though it was not committed.
    KeepAbortedCopies,
    /// A page of a state that has changed is not sent.
    LeaveOutAPage,
    /// What is sent of a state is what has changed since a copy that is not valid yet.
    ChangeThePending,
    /// A copy takes the place of one that was protected after it, as its block is decided later.
    CountTheOlder,
    /// A restore asks those who are to keep a copy from now on, not those who have kept it.
    AskThePresentKeepers,
    /// What a block put into windows is there though it was not committed.
    KeepAbortedPuts,
    /// After an abort the communicators below go by their old name.
    KeepTheName,
    /// Who begins a rebuild answers no more for the old world.
    LeaveTheOldWorld,
    /// Who leaves after a rebuild that failed does not wait for those who do not know it yet.
    LeaveBeforeTheOthersKnow,
    /// Who leaves says no farewell to those with whom it has freed a communicator.
    ForgetTheFreed,
    /// What a step knows of the dead is what this rank has heard since.
    LearnTooLate,
    /// A rebuild with too few spares spawns processes also in a world that can have none.
    SpawnWhereNoneMay,
    /// An epoch of a communicator that an overtaken abort began elsewhere is not taken note of.
    ForgetTheOvertaken,
    /// Who asks how far a rank is, before that one has come to its end, is not told when it does.
    ForgetTheAsker,
    /// Blocks whose requests drain when their communicator is given up go on draining.
    DrainTheGivenUp,
    /// Messages of a program that owns its MPI do not say of which attempt they are.
    ShareTheTags,
    /// A block may commit in a data context in which an earlier one has left something behind.
    CommitInTheTainted,
    /// Collectives start in a data context in which another block has left something behind.
    StartInTheTainted,
    /// Messages of a program that owns its MPI do not say of which block they are.
    NameNoBlock,
    /// A request among neighbours that failed gives up the messages of the living, too.
    GiveUpTheRest,
    /// Of messages about communicators that are not made yet only a few are kept.
    LoseEarlyMessages,
    /// A message starts in a block whose tags are those of an older open one.
    WrapTheTags,
    /// A block that was cut short by a death of an earlier report names no cause.
    NameNoCause,
    /// A death in a universe that is not adopted yet is forgotten.
    DropEarlyDeaths,
    /// Rows are made again by calls of the world, without the spares that vote on them.
    LeaveTheSparesOut,
    /// Ranks enter a call that no death ends before all know that it is to be made.
    CallAtOnce,
    /// Whoever tests requests falls idle without having polled since.
    TestTooLong,
    /// Whoever votes in its last turn falls idle without having polled for the others' votes.
    SleepOnAVote,
    /// An interruption does not go around the dead.
    CutTheFlood,
    /// A position that another folds into does not wait for it.
    LeaveOutTheFolded,
    /// Who folded in is told the result when the last round begins.
    TellTheFoldedEarly,
    /// A round does not wait for the last of its group, if that is wider than two.
    SkipAMember,
    /// In the last round a position tells its group of the round before.
    TellTheOldGroup,
    /// The last round is left out.
    StopARoundEarly,
    /// The values of a member of a wide group are combined twice.
    CountAMemberTwice,
    /// The head of a node does not wait for one of its ranks.
    LeaveOutAMember,
    /// The head of a node tells its ranks before it has heard of the other nodes.
    TellBeforeTheHeads,
    /// Values that ranks of several nodes bring are combined in the order in which they come.
    CombineAsTheyCome,
    /// Values of a fused reduction are combined before their round.
    CombineEarly,
    /// The slow path combines values one rank after another.
    FoldInARow,
    /// Who is told the result of a fused reduction adds its own values once more.
    CountTwice,
    /// The slow path leaves out the values of the subtrees.
    OwnValues,
    /// A decision that the fast path came to is passed on with this rank's own values.
    PassOnOwn,
    /// A rank does not answer who waits for a rider ahead of the commit, unless it waits, too.
    WaitInVain,
    /// A position that folds into another is not told that some rank waits for a rider.
    LetTheFoldedSleep,
    /// A rank that had the result of the last rider before it votes does not bring it to the vote.
    LeaveTheRiderBehind,
    /// Votes with values of different shapes, or without, can be committed.
    MixShapes,
    /// Accusations by those who are benched count.
    HearTheBenched,
    /// Accusations count in the order in which they come.
    AccuseAsTheyCome,
    /// Who is benched comes back when one member has seen it well.
    AskNobodyElse,
    /// Tests that were passed before the target was benched count for its return.
    CountOldPasses,
    /// Who comes back accuses others of what it saw before.
    AccuseAgain,
    /// When the last member dies, those who are benched stay so.
    LeaveNobody,
    /// Who is benched has an even counter, as a member has.
    CountTwo,
    /// The ranks of a benched node go on to work.
    LeaveTheRanksIn,
    /// The observer of a node is heard of which no rank works.
    HearTheIdle,
    /// A benched node comes back with the next census, whatever others say of it.
    TakeItsWord,
    /// A replacement is not told who is benched.
    TellNoNewcomer,
    /// In an agreement a rank counts all deaths as acknowledged that it knows of.
    ForgiveTheUnacknowledged,
    /// An agreement in which a death is found has no result.
    DropTheFlag,
    /// A rank brings what it knows of the dead before it was told how they have died.
    SpeakBeforeTheCause,
    /// A rank reports how the dead have died as it knows itself, not as was decided.
    OwnCauses,
}
