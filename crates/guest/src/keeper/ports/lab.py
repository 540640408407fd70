"""Starts JupyterLab. It knows one visitor, by the header that the host adds to every request: no page, file or child
process of it holds the token."""

import hmac
import os
import re
import sys

from jupyter_server.auth.identity import IdentityProvider, User
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager
from jupyterlab.labapp import LabApp

# The notebooks of the API's executions; further ones have a number.
NOTEBOOK = re.compile(r"session\.(\w+?)(?:-\d+)?\.ipynb")
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


class HostKernelManager(AsyncMappingKernelManager):
    def __len__(self):
        """Kernels that it started itself; those of others must not keep it from ending when nobody uses it."""
        return sum(kernel.owns_kernel for kernel in self._kernels.values())

    def list_kernel_ids(self):
        """Finds a kernel of others again that a visitor shut down here: it goes on there."""
        for kernel_id in self.kernel_id_to_connection_file.keys() - self._kernels.keys():
            del self.kernel_id_to_connection_file[kernel_id]
        return super().list_kernel_ids()


class HostSessionManager(SessionManager):
    async def start_kernel_for_session(self, session_id, path, name, type, kernel_name, kernel_id=None):
        """A notebook that records a language's kernel opens with that kernel, as long as it runs."""
        # JupyterLab sends the name of the file and a made-up path, which it corrects once the kernel runs.
        return self.recorded_kernel(path) or self.recorded_kernel(name) or await super().start_kernel_for_session(
            session_id, path, name, type, kernel_name, kernel_id
        )

    def recorded_kernel(self, notebook):
        language = NOTEBOOK.fullmatch(notebook or "")
        self.kernel_manager.list_kernel_ids()
        for kernel_id, connection_file in self.kernel_manager.kernel_id_to_connection_file.items():
            if language and connection_file.stem == f"kernel-{language[1]}":
                return kernel_id
        return None


sys.argv[0] = "jupyter-lab"
classes = [
    "--ServerApp.identity_provider_class=__main__.HostIdentityProvider",
    "--ServerApp.kernel_manager_class=__main__.HostKernelManager",
    "--ServerApp.session_manager_class=__main__.HostSessionManager",
]
LabApp.launch_instance(argv=sys.argv[1:] + classes)
