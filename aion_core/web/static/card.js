// Checks of an agent card: errors against the specification (A2A 4.4.1), and advice for a more useful card.

const isEmpty = (value) => value === undefined || value === "" || value?.length === 0;

const hostOf = (url) => URL.canParse(url) && new URL(url).host.replace("localhost", "127.0.0.1");

function missing(owner, object, names) {
  return names.filter((name) => isEmpty(object?.[name])).map((name) => `${owner} has no ${name}, which A2A requires.`);
}

/** Return a card of A2A 0.3 with the fields of 1.0 that are checked; a card of 1.0 as it is. */
function inForm(card) {
  if (card.supportedInterfaces || !card.url) return card;
  const protocolVersion = card.protocolVersion ?? "0.3";
  const more = objects(card.additionalInterfaces).map(({ url, transport }) => ({ url, protocolBinding: transport, protocolVersion }));
  const supportedInterfaces = [{ url: card.url, protocolBinding: card.preferredTransport ?? "JSONRPC", protocolVersion }, ...more];
  return { ...card, supportedInterfaces, securityRequirements: objects(card.security).map((schemes) => ({ schemes })) };
}

/** Return the objects of a list, and nothing of anything else. */
const objects = (list) => (Array.isArray(list) ? list : []).filter((each) => each && typeof each === "object");

/** Return what is wrong with the card that was received from `url`, and advice. `failure` says why it cannot be used at all. */
export function checked(received, url, failure) {
  const [card] = objects([received]);
  if (!card) return { wrong: [failure, "The answer is no card. It is shown below."], advice: [] };
  return { wrong: [...(failure ? [failure] : []), ...errors(inForm(card), url)], advice: failure ? [] : advice(card) };
}

function errors(card, url) {
  const { securitySchemes } = card;
  const [skills, interfaces, requirements] = [card.skills, card.supportedInterfaces, card.securityRequirements].map(objects);
  const ids = skills.map(({ id }) => id);
  const named = requirements.flatMap(({ schemes }) => Object.keys(schemes ?? {}));
  return [
    ...missing("The card", card, ["name", "description", "version", "supportedInterfaces", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"]),
    ...skills.flatMap((skill, place) => missing(`Skill ${skill.id || place + 1}`, skill, ["id", "name", "description", "tags"])),
    ...ids.filter((id, place) => ids.indexOf(id) < place).map((id) => `Two skills have the id ${id}.`),
    ...interfaces.flatMap((each, place) => missing(`Interface ${place + 1}`, each, ["url", "protocolBinding", "protocolVersion"])),
    ...interfaces.filter((each) => !URL.canParse(each.url)).map((each) => `The interface's URL ${each.url} is not absolute.`),
    ...named.filter((name) => !(name in Object(securitySchemes))).map((name) => `The security scheme ${name} is required but not defined.`),
    interfaces.length > 0 && !interfaces.some((each) => hostOf(each.url) === hostOf(url)) &&
      `No interface has the host of this page, ${hostOf(url)}: clients call another server (AION_BASE_URL).`,
  ].filter(Boolean);
}

/** Return advice for a card that follows the specification. */
function advice({ skills, provider, securitySchemes, documentationUrl, signatures, description = "" }) {
  return [
    description && description.length < 20 && "The description is short: other agents choose this one by it.",
    objects(skills).some(({ examples }) => isEmpty(examples)) && "A skill has no examples: they show clients what to send.",
    !provider && "The card names no provider.",
    !documentationUrl && "The card has no documentationUrl.",
    !securitySchemes && "The card has no security schemes: everyone who can reach the server may use the agent.",
    isEmpty(signatures) && "The card is not signed: clients cannot tell a changed card (aion card keygen).",
  ].filter(Boolean);
}
