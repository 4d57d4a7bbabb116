"""What all estimators share: scikit-learn's conventions, without scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, Self

from privfcd import checks


class Estimator:
    """Parameters are set in `__init__` and nowhere else, checked in `fit`; results end in an underscore."""

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `deep` is there for scikit-learn and makes no difference."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, and return self."""
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise checks.refuse("parameter", name, "one of " + ", ".join(known))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = {name: value for name, value in self.get_params().items() if value is not defaults[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
