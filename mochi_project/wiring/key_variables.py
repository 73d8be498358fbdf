"""Names the environment variables that hold keys, which tools must not see."""

from mochi_project.configuration.config import MochiSettings
from models_app.profiles import ProfileService
from models_app.vendors.registry import KNOWN_VENDORS

WELL_KNOWN = frozenset(
    {
        "AI21_API_KEY",
        "ALIBABA_API_KEY",
        "ANTHROPIC_ADMIN_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AZURE_API_KEY",
        "AZURE_OPENAI_API_KEY",
        "CEREBRAS_API_KEY",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "COHERE_API_KEY",
        "CO_API_KEY",
        "DASHSCOPE_API_KEY",
        "DEEPINFRA_API_KEY",
        "DEEPSEEK_API_KEY",
        "FIREWORKS_API_KEY",
        "GROK_API_KEY",
        "GROQ_API_KEY",
        "HF_TOKEN",
        "HUGGINGFACE_API_KEY",
        "HUGGING_FACE_HUB_TOKEN",
        "LITELLM_API_KEY",
        "LITELLM_MASTER_KEY",
        "MISTRAL_API_KEY",
        "MOONSHOTAI_API_KEY",
        "MOONSHOT_API_KEY",
        "NEBIUS_API_KEY",
        "NVIDIA_API_KEY",
        "OLLAMA_API_KEY",
        "OPENAI_ADMIN_KEY",
        "PERPLEXITY_API_KEY",
        "REPLICATE_API_TOKEN",
        "SAMBANOVA_API_KEY",
        "SECRET_KEY",
        "TOGETHERAI_API_KEY",
        "TOGETHER_API_KEY",
        "VERCEL_AI_GATEWAY_API_KEY",
        "VOYAGE_API_KEY",
        "XAI_API_KEY",
        "ZAI_API_KEY",
        "ZHIPUAI_API_KEY",
    }
)
"""Keys of vendors that people have in their environment, beside those that we use ourselves."""


class KeyVariables:
    """The names of the variables that hold keys.

    Args:
        settings: The configuration.
    """

    def __init__(self, settings: MochiSettings) -> None:
        configured = {provider.api_key_env or "" for provider in settings.providers.values()}
        usual = {variable for vendor in KNOWN_VENDORS for variable in vendor.key_variables}
        self._fixed = WELL_KNOWN | usual | configured
        self._profiles = ProfileService(settings.resolved_data_dir / "profiles")

    def names(self) -> frozenset[str]:
        """Return them, in upper case: well-known ones, and those of providers and profiles now.

        Blocks for milliseconds: profiles are files.
        """
        named = {profile.api_key_env or "" for profile in self._profiles.list().profiles}
        return frozenset(name.upper() for name in self._fixed | named if name)
