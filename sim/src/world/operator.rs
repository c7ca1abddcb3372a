//! An operator of a coordinator, who gives up on resource managers. Only stories have operators.

use coalloc_common::{RmName, UserName};
use coalloc_protocol::coordinator::{CoordinatorInput, GiveUpReply, OfWhat, Repair, Reservation};
use coalloc_protocol::message::Token;

use super::identity::{JudgedCall, Sender};
use super::{Address, Waiter, World, print};

impl World {
    /// An operator gives up on one RM of a demand's reservation.
    ///
    /// # Errors
    /// When the demand has no reservation, or the coordinator is down.
    pub fn give_up(&mut self, demand: usize, rm: RmName) -> Result<(), String> {
        let reservation = self.known_id(demand).ok_or("it has no reservation")?;
        let grc = self.clients.demands[demand].grc;
        if !self.grcs[grc].is_up() {
            return Err("its coordinator is down".to_owned());
        }
        self.say_operator(grc, true, &format!("gives up on {rm} for {reservation}"));
        self.check_admitted(grc, Sender::Operator, JudgedCall::GiveUp)?;
        let token = self.fresh();
        self.waiters.insert(token, Waiter::Operator);
        let (of, by) = (OfWhat::Reservation(reservation), UserName::composed("operator"));
        let (why, token) = ("it is gone".to_owned(), Token::new(token));
        let input = CoordinatorInput::Repair(Repair::GiveUp { rm, of, by, why, token });
        self.grcs[grc].post(input);
        self.begin(Address::Grc(grc))
    }

    pub(super) fn tell_operator(&mut self, grc: usize, reply: &GiveUpReply) -> Result<(), String> {
        match reply {
            GiveUpReply::GaveUp(_) | GiveUpReply::NotGivenUp(_) => {
                self.say_operator(grc, false, &print::gave_up(reply));
                Ok(())
            }
            GiveUpReply::Unknown => Err("an operator gets an unexpected reply: unknown".to_owned()),
        }
    }

    fn say_operator(&mut self, grc: usize, asks: bool, what: &str) {
        self.say(
            |world| {
                let name = &world.grcs[grc].name;
                if asks { format!("operator -> {name}") } else { format!("{name} -> operator") }
            },
            |_| what.to_owned(),
        );
    }
}

/// Has the operator given up on this RM, so that it may still have something of the reservation?
pub(super) fn may_have(reservation: &Reservation, rm: &str) -> bool {
    reservation.given_up.iter().any(|one| one.rm.as_str() == rm && one.ended.is_none())
}
