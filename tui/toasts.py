"""Toasts said again while they are still shown: no second one is put beside the first.

Over a modal screen the newest stands alone, as its style says, since its room is taken from what is read there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.notifications import Notification
from textual.widgets._toast import Toast, ToastHolder

if TYPE_CHECKING:
    from tui.app import SelfPlayApp


def renewed(app: SelfPlayApp, said: Notification) -> bool:
    """Whether the same is shown already; then its time begins anew."""
    shown = next((other for other in app._notifications if _words(other) == _words(said)), None)
    if shown is None:
        return False
    shown.raised_at, shown.timeout = said.raised_at, said.timeout
    for screen in app.screen_stack:
        for toast in screen.query(Toast):
            if toast._notification is shown:
                for timer in list(toast._timers):
                    timer.stop()
                toast.set_timer(said.timeout, toast._expire)
    return True


def uncover(app: SelfPlayApp) -> None:
    """Shows the one before that which has gone: that it is the last child now, Textual sees only when told to."""
    for holder in app.screen.query(ToastHolder) if app.screen_stack else ():
        holder.update_node_styles(animate=False)


def _words(notification: Notification) -> tuple[str, str]:
    return notification.message, notification.severity
