// Program around the receiver of docs/push.md: it listens on a port, and handles events.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
)

func handle(body []byte) {
	var event struct {
		StatusUpdate struct{ Status struct{ State string } }
	}
	if err := json.Unmarshal(body, &event); err != nil {
		log.Fatal(err)
	}
	fmt.Println(event.StatusUpdate.Status.State)
}

func main() {
	receiver, err := newReceiver(os.Getenv("WEBHOOK_TOKEN"))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	log.Fatal(http.Serve(listener, receiver))
}
