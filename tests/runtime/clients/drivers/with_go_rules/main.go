// A client of A2A 1.0 that reads responses by the rules of a2a-go, the official client in Go. It is not a2a-go, which comes
// from Go's module proxy only. Its rules: the body of a stream is read as SSE, whatever its type says; the body of an
// HTTP+JSON error is read if its type is application/json, and the error is "server error" otherwise.
//
// a2a-dotnet reads a stream by the same rule, and sends no User-Agent.
//
// The program does what play.py does for the drivers in Python. Its arguments are the binding, JSONRPC or HTTP+JSON, and
// perhaps `anonymous`, for requests without a User-Agent.
package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
)

type part struct {
	Text string `json:"text,omitempty"`
}

type message struct {
	MessageID string `json:"messageId"`
	ContextID string `json:"contextId,omitempty"`
	TaskID    string `json:"taskId,omitempty"`
	Role      string `json:"role"`
	Parts     []part `json:"parts"`
}

type artifact struct {
	ArtifactID string `json:"artifactId"`
	Parts      []part `json:"parts"`
}

type status struct {
	State   string   `json:"state"`
	Message *message `json:"message"`
}

type task struct {
	ID        string     `json:"id"`
	ContextID string     `json:"contextId"`
	Status    status     `json:"status"`
	Artifacts []artifact `json:"artifacts"`
}

type event struct {
	Task         *task    `json:"task"`
	Message      *message `json:"message"`
	StatusUpdate *struct {
		TaskID    string `json:"taskId"`
		ContextID string `json:"contextId"`
		Status    status `json:"status"`
	} `json:"statusUpdate"`
	ArtifactUpdate *struct {
		Artifact artifact `json:"artifact"`
		Append   bool     `json:"append"`
	} `json:"artifactUpdate"`
}

type problem struct {
	Message string `json:"message"`
}

// rpcResponse is a JSON-RPC response.
type rpcResponse struct {
	Result json.RawMessage `json:"result"`
	Error  *problem        `json:"error"`
}

type cell struct {
	Name      string     `json:"name"`
	Agent     string     `json:"agent"`
	Call      string     `json:"call"`
	Arguments [][]string `json:"arguments"`
	Slow      bool       `json:"slow"`
}

type conversation struct {
	url       string
	rest      bool
	anonymous bool
	context   string
	asking    string
}

// say sends a message to a task, or begins one, and returns what the user sees.
func (c *conversation) say(taskID, text string, stream bool) (string, error) {
	said := message{rand.Text(), c.context, taskID, "ROLE_USER", []part{{text}}}
	params := map[string]any{"message": said}
	if !stream {
		var answer event
		if err := c.call("SendMessage", "POST", "/message:send", params, &answer); err != nil {
			return "", err
		}
		if answer.Task == nil {
			return words(answer.Message.Parts), nil
		}
		c.remember(answer.Task.ContextID, answer.Task.ID, answer.Task.Status.State)
		return whole(answer.Task), nil
	}
	seen := screen{}
	err := c.stream("SendStreamingMessage", "/message:stream", params, func(update event) {
		if update.ArtifactUpdate != nil {
			artifact := update.ArtifactUpdate.Artifact
			seen.add(artifact.ArtifactID, words(artifact.Parts), update.ArtifactUpdate.Append)
		}
		if update.StatusUpdate != nil {
			c.remember(update.StatusUpdate.ContextID, update.StatusUpdate.TaskID, update.StatusUpdate.Status.State)
			update.Message = update.StatusUpdate.Status.Message
		}
		if update.Message != nil {
			seen.add(update.Message.MessageID, words(update.Message.Parts), false)
		}
	})
	return seen.String(), err
}

func (c *conversation) get(taskID string) (string, error) {
	var got task
	err := c.call("GetTask", "GET", "/tasks/"+url.PathEscape(taskID), map[string]any{"id": taskID}, &got)
	return whole(&got), err
}

func (c *conversation) remember(contextID, taskID, state string) {
	c.context, c.asking = contextID, ""
	if state == "TASK_STATE_INPUT_REQUIRED" {
		c.asking = taskID
	}
}

// call sends a request, and decodes its result.
func (c *conversation) call(method, verb, path string, params any, result any) error {
	response, err := c.request(method, verb, path, params, "application/json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if c.rest {
		return json.NewDecoder(response.Body).Decode(result)
	}
	return unwrap(json.NewDecoder(response.Body), result)
}

// stream sends a request, and reads the response as SSE, whatever its type is.
func (c *conversation) stream(method, path string, params any, each func(event)) error {
	response, err := c.request(method, "POST", path, params, "text/event-stream")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 10<<20)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data:")
		if !found {
			continue
		}
		var update event
		decoder := json.NewDecoder(strings.NewReader(data))
		if c.rest {
			err = decoder.Decode(&update)
		} else {
			err = unwrap(decoder, &update)
		}
		if err != nil {
			return err
		}
		each(update)
	}
	return lines.Err()
}

func (c *conversation) request(method, verb, path string, params any, accept string) (*http.Response, error) {
	body, target := params, c.url+path
	if !c.rest {
		verb, target = "POST", c.url+"/"
		body = map[string]any{"jsonrpc": "2.0", "id": rand.Text(), "method": method, "params": params}
	}
	content, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if verb == "GET" {
		content = nil
	}
	request, err := http.NewRequest(verb, target, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"A2a-Version": {"1.0"}, "Accept": {accept}, "Content-Type": {"application/json"}}
	if c.anonymous {
		request.Header.Set("User-Agent", "") // Go then sends none.
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode == http.StatusOK {
		return response, err
	}
	defer response.Body.Close()
	if !c.rest {
		return nil, fmt.Errorf("unexpected HTTP status: %s", response.Status)
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "application/json" {
		return nil, errors.New("server error")
	}
	var refused struct{ Error problem }
	if err := json.NewDecoder(response.Body).Decode(&refused); err != nil {
		return nil, err
	}
	return nil, errors.New(refused.Error.Message)
}

func unwrap(decoder *json.Decoder, result any) error {
	var response rpcResponse
	if err := decoder.Decode(&response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.Error.Message)
	}
	return json.Unmarshal(response.Result, result)
}

// screen is what a program for the terminal shows: texts as they come, each artifact and message once.
type screen struct{ texts [][2]string }

func (s *screen) add(key, text string, more bool) {
	if last := len(s.texts) - 1; more && last >= 0 && s.texts[last][0] == key {
		s.texts[last][1] += text
		return
	}
	for _, each := range s.texts {
		if each == [2]string{key, text} {
			return
		}
	}
	if text != "" {
		s.texts = append(s.texts, [2]string{key, text})
	}
}

func (s *screen) String() string {
	var texts []string
	for _, each := range s.texts {
		texts = append(texts, each[1])
	}
	return strings.Join(texts, " | ")
}

func whole(of *task) string {
	seen := screen{}
	for _, each := range of.Artifacts {
		seen.add(each.ArtifactID, words(each.Parts), false)
	}
	if said := of.Status.Message; said != nil {
		seen.add(said.MessageID, words(said.Parts), false)
	}
	return seen.String()
}

func words(parts []part) string {
	var text strings.Builder
	for _, each := range parts {
		text.WriteString(each.Text)
	}
	return text.String()
}

func shown(c *conversation, of cell) string {
	var seen []string
	for _, given := range of.Arguments {
		var text string
		var err error
		switch of.Call {
		case "send", "stream":
			text, err = c.say(c.asking, given[0], of.Call == "stream")
		case "send_to", "stream_to":
			text, err = c.say(given[0], given[1], of.Call == "stream_to")
		case "get":
			text, err = c.get(given[0])
		}
		if err != nil {
			text = "error: " + err.Error()
		} else if text = strings.TrimSpace(text); text == "" {
			text = "(nothing)"
		}
		seen = append(seen, text)
	}
	return strings.Join(seen, " → ")
}

func main() {
	var given struct {
		URL, Into string
		Cells     []cell
	}
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	var playing sync.WaitGroup
	var lock sync.Mutex
	texts := map[string]string{}
	play := func(of cell) {
		begun := conversation{url: given.URL + "/agents/" + of.Agent, rest: os.Args[1] == "HTTP+JSON", anonymous: len(os.Args) > 2}
		text := shown(&begun, of)
		lock.Lock()
		defer lock.Unlock()
		texts[of.Name] = text
	}
	for _, each := range given.Cells {
		if each.Slow {
			playing.Add(1)
			go func() { defer playing.Done(); play(each) }()
		}
	}
	for _, each := range given.Cells {
		if !each.Slow {
			play(each)
		}
	}
	playing.Wait()
	content, err := json.Marshal(texts)
	if err == nil {
		err = os.WriteFile(given.Into, content, 0o600)
	}
	if err != nil {
		panic(err)
	}
}
