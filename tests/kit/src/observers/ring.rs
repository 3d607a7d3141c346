//! Our own observers as stations.

use std::{collections::BTreeMap, sync::Arc};

use fampi_detector::protocol::{
    Effect, Event, Host, Incarnation, Node, Process, Timer, Timing, layout::Layout,
    message::Message, observer::Observer,
};

use super::stations::{Out, Station};

/// A message between two lives of nodes.
pub struct Letter {
    pub from: Host,
    pub to: Host,
    pub message: Message,
}

/// The observer of a node from its launch on.
pub struct Ring {
    me: Host,
    timing: Timing,
    layout: Arc<Layout>,
    observer: Option<Observer>,
    /// How often each timer was armed or disarmed: what runs out is the last of its name.
    armed: BTreeMap<Timer, u64>,
}

pub type RingOut = Out<Letter, (Timer, u64)>;

impl Ring {
    pub fn new(node: u32, timing: Timing, layout: &Arc<Layout>) -> Self {
        let me = Host { node: Node(node), incarnation: Incarnation(0) };
        Self { me, timing, layout: layout.clone(), observer: None, armed: BTreeMap::new() }
    }

    /// The observer, once it has begun.
    pub fn observer(&self) -> Option<&Observer> {
        self.observer.as_ref()
    }

    /// One more turn of the observer; what it tells dead has its rank behind the nodes' numbers.
    pub fn turn(&mut self, out: &mut RingOut, turn: impl FnOnce(&mut Observer, &mut Vec<Effect>)) {
        let Some(observer) = &mut self.observer else { return };
        let mut effects = Vec::new();
        turn(observer, &mut effects);
        self.carry_out(effects, out);
    }

    fn carry_out(&mut self, effects: Vec<Effect>, out: &mut RingOut) {
        let nodes = self.layout.nodes();
        for effect in effects {
            match effect {
                Effect::Send(to, message) => {
                    let letter = Letter { from: self.me, to, message };
                    out.sends.push((to.node.0, letter));
                }
                Effect::Arm(timer, after) => {
                    let armed = self.armed.entry(timer).or_default();
                    *armed += 1;
                    out.timers.push(((timer, *armed), after));
                }
                Effect::Disarm(timer) => *self.armed.entry(timer).or_default() += 1,
                Effect::Emit(Event::Lost(host, _)) => out.dead.push(host.node.0),
                Effect::Emit(Event::Died(Process { rank, .. }, _)) => {
                    out.dead.push(nodes + rank.0);
                }
                Effect::Emit(_) => {}
            }
        }
    }
}

impl Station for Ring {
    type Wire = Letter;
    type Timer = (Timer, u64);

    fn begin(&mut self, out: &mut RingOut) {
        let mut effects = Vec::new();
        let layout = self.layout.clone();
        self.observer = Some(Observer::start(self.me, self.timing, layout, &mut effects));
        self.carry_out(effects, out);
    }

    fn receive(&mut self, _: u32, letter: Letter, out: &mut RingOut) {
        if letter.to == self.me {
            self.turn(out, |it, effects| it.handle_message(letter.from, letter.message, effects));
        }
    }

    fn expire(&mut self, (timer, number): (Timer, u64), out: &mut RingOut) {
        if self.armed.get(&timer) == Some(&number) {
            self.turn(out, |it, effects| it.handle_timer(timer, effects));
        }
    }
}
