"""Example aion.yaml that sets every field of an agent card, with characters outside ASCII."""

AION_YAML = """
aion:
  agents:
    helper:
      path: agent.py
      name: Hélper \U0001f916
      description: Answers questions.
      version: 2.1.0
      documentation_url: https://example.com/helper
      icon_url: https://example.com/helper.png
      provider: {organization: Example, url: https://example.com}
      input_modes: [text/plain, image/png]
      output_modes: [text/markdown]
      skills:
        - id: find
          name: Find
          description: Finds things.
          tags: [search]
          examples: ["Where is my hat?"]
          input_modes: [text/plain]
          output_modes: [application/json]
        - {id: plain, name: Plain, description: Says little.}
      capabilities:
        extended_agent_card: true
        extensions:
          - {uri: "https://example.com/ext", description: More., required: true, params: {n: 1, deep: {empty: "", x: [1.5]}}}
      extended_card:
        description: Answers more questions.
        skills:
          - {id: secret, name: Secret, description: Finds what is hidden., tags: [search]}
    quiet:
      path: agent.py
      capabilities: {streaming: false, push_notifications: false}
    unready:
      path: agent.py
      capabilities: {extended_agent_card: true}
"""
