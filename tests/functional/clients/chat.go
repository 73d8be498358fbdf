// Go's net/http with its defaults.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func ask(method, url, contentType string, body io.Reader) (int, string) {
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		panic(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(err)
	}
	return answer.StatusCode, string(text)
}

func main() {
	url, session, json := os.Args[1], os.Args[2], "application/json"
	chat := url + "/chat/" + session
	status, _ := ask("POST", chat, json, strings.NewReader(`{"message": "first"}`))
	fmt.Println("length", status)
	unknown := io.MultiReader(strings.NewReader(`{"message": "second"}`))
	status, _ = ask("POST", chat, json, unknown)
	fmt.Println("chunks", status)
	_, events := ask("POST", chat+"/stream", json, strings.NewReader(`{"message": "third"}`))
	fmt.Println("stream", strings.Count(events, "event: done\n"))
	status, _ = ask("POST", chat, "text/plain", strings.NewReader(`{"message": "fourth"}`))
	fmt.Println("wrong", status)
	status, _ = ask("POST", chat+"/cancel", "", nil)
	fmt.Println("empty", status)
	status, _ = ask("GET", url+"/sessions/"+session+"/messages", "", nil)
	fmt.Println("messages", status)
}
