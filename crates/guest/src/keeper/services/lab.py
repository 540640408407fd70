"""Starts JupyterLab. It knows one visitor, by the header that the host adds to every request: no page, file or child
process of it holds the token."""

import hmac
import os
import sys

from jupyter_server.auth.identity import IdentityProvider, User
from jupyterlab.labapp import LabApp

EXPECTED = "token " + os.environ.pop("SANDYARD_LAB_TOKEN")


class HostIdentityProvider(IdentityProvider):
    token = ""
    auth_enabled = True
    login_available = False
    logout_available = False

    def is_token_authenticated(self, handler):
        given = handler.request.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode(), EXPECTED.encode())

    async def get_user(self, handler):
        if self.is_token_authenticated(handler):
            return User(username="agent", name="agent", display_name="agent", initials="a")
        return None


sys.argv[0] = "jupyter-lab"
LabApp.launch_instance(argv=sys.argv[1:] + ["--ServerApp.identity_provider_class=__main__.HostIdentityProvider"])
