"""Lists the environment variables with keys, which tools must not see."""

from models_app.profiles import ProfileService
from models_app.settings import ModelsSettings
from models_app.vendors.registry import KNOWN_VENDORS
from sessions_app.errors import StorageUnavailable
from sessions_app.store.records import Records

WELL_KNOWN = frozenset[str]().union(
    ("AI21_API_KEY", "ALIBABA_API_KEY", "ANTHROPIC_ADMIN_KEY", "ANTHROPIC_AUTH_TOKEN"),
    ("AWS_BEARER_TOKEN_BEDROCK", "AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "CEREBRAS_API_KEY"),
    ("CLAUDE_CODE_OAUTH_TOKEN", "COHERE_API_KEY", "CO_API_KEY", "DASHSCOPE_API_KEY"),
    ("DEEPINFRA_API_KEY", "DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "GROK_API_KEY"),
    ("GROQ_API_KEY", "HF_TOKEN", "HUGGINGFACE_API_KEY", "HUGGING_FACE_HUB_TOKEN"),
    ("LITELLM_API_KEY", "LITELLM_MASTER_KEY", "MISTRAL_API_KEY", "MOONSHOTAI_API_KEY"),
    ("MOONSHOT_API_KEY", "NEBIUS_API_KEY", "NVIDIA_API_KEY", "OLLAMA_API_KEY"),
    ("OPENAI_ADMIN_KEY", "PERPLEXITY_API_KEY", "REPLICATE_API_TOKEN", "SAMBANOVA_API_KEY"),
    ("SECRET_KEY", "TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "VERCEL_AI_GATEWAY_API_KEY"),
    ("VOYAGE_API_KEY", "XAI_API_KEY", "ZAI_API_KEY", "ZHIPUAI_API_KEY"),
)
"""Vendors' keys that people often have in their environment, besides those that we use."""


OF_OBJECT_STORES = frozenset[str]().union(
    ("AWS_ACCESS_KEY_ID", "AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    ("AWS_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_CLIENT_SECRET"),
    ("AZURE_FEDERATED_TOKEN_FILE", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_ACCOUNT_KEY"),
    ("AZURE_STORAGE_CLIENT_SECRET", "AZURE_STORAGE_MASTER_KEY", "AZURE_STORAGE_SAS_KEY"),
    ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"),
    ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_SERVICE_ACCOUNT_PATH"),
)
"""Variables with the credentials of the session store."""


OF_RECEIVERS = frozenset(
    {
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    }
)
"""Variables with the credentials for sending traces."""


class KeyVariables:
    """Determines the names of variables with keys.

    Args:
        settings: The configuration.
        profiles: The profiles, which may name further variables.
    """

    def __init__(self, settings: ModelsSettings, profiles: Records) -> None:
        configured = {provider.api_key_env or "" for provider in settings.providers.values()}
        usual = {variable for vendor in KNOWN_VENDORS for variable in vendor.key_variables}
        stores = OF_OBJECT_STORES if settings.sessions_url is not None else frozenset()
        self._fixed = WELL_KNOWN | OF_RECEIVERS | usual | configured | stores
        self._profiles = ProfileService(profiles)
        self._named: frozenset[str] | None = None

    def names(self) -> frozenset[str]:
        """Return the names in upper case: well-known ones, and those of providers and profiles.

        Blocks for milliseconds, or until the timeout of an object store; then the last known names
        are returned.

        Raises:
            StorageUnavailable: The profiles can't be reached, and were never read before.
        """
        self._named = self._named_now()
        return frozenset(name.upper() for name in self._fixed | self._named if name)

    def _named_now(self) -> frozenset[str]:
        try:
            profiles = self._profiles.list().profiles
        except StorageUnavailable:
            if self._named is None:
                raise
            return self._named
        return frozenset(profile.api_key_env or "" for profile in profiles)
