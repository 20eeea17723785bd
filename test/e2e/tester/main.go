// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Command federation-tester runs in the pods of the end-to-end tests. It is a web server that tests
// control by requests, and has small commands for containers without a shell.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

const usage = `usage: federation-tester serve [ADDRESS]   answer HTTP, log requests, echo the lines of stdin
       federation-tester print LINE…       print lines and end
       federation-tester exit CODE         end with that code
       federation-tester cat               copy stdin to stdout
       federation-tester winsize           print the terminal's size, again whenever it changes, until stdin ends
       federation-tester ls DIRECTORY      print the names in a directory
       federation-tester read FILE         print a file
       federation-tester plant DIRECTORY   make a directory of files that are hard to copy
       federation-tester tree DIRECTORY    print a line for each file, with all that a copy can lose
       federation-tester env NAME          print a variable of the environment
       federation-tester get URL           print what a server answers
       federation-tester count URL         print how many bytes a server answers
       federation-tester udp ADDRESS SIZE  send a datagram of that size, and expect it back
       federation-tester beat ADDRESS      send 100 datagrams a second until stdin ends, and count those returned
       federation-tester burn              keep a processor busy
       federation-tester linger            ignore SIGTERM
       federation-tester lookup NAME       print the addresses of a name
       federation-tester api PATH          print the answer of the pod's API server to its ServiceAccount
`

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "federation-tester:", err)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 64, nil
	}
	switch command, args := args[0], args[1:]; {
	case command == "serve" && len(args) <= 1:
		return serve(append(args, ":8080")[0])
	case command == "print":
		_, err = fmt.Println(strings.Join(args, "\n"))
	case command == "exit" && len(args) == 1:
		return strconv.Atoi(args[0])
	case command == "cat" && len(args) == 0:
		_, err = io.Copy(os.Stdout, os.Stdin)
	case command == "winsize" && len(args) == 0:
		err = printSizes()
	case command == "ls" && len(args) == 1:
		err = list(args[0])
	case command == "read" && len(args) == 1:
		err = read(args[0])
	case command == "plant" && len(args) == 1:
		err = makeTree(args[0])
	case command == "tree" && len(args) == 1:
		err = printTree(args[0])
	case command == "env" && len(args) == 1:
		_, err = fmt.Println(os.Getenv(args[0]))
	case command == "get" && len(args) == 1:
		err = get(args[0])
	case command == "count" && len(args) == 1:
		err = count(args[0])
	case command == "udp" && len(args) == 2:
		err = datagram(args[0], args[1])
	case command == "burn" && len(args) == 0:
		for i := 0; ; i++ {
		}
	case command == "linger" && len(args) == 0:
		signal.Ignore(syscall.SIGTERM)
		select {}
	case command == "beat" && len(args) == 1:
		err = beat(args[0])
	case command == "lookup" && len(args) == 1:
		err = lookup(args[0])
	case command == "api" && len(args) == 1:
		err = api(args[0])
	default:
		fmt.Fprint(os.Stderr, usage)
		return 64, nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

func list(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		fmt.Println(e.Name())
	}
	return nil
}

func read(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(content)
	return err
}

// api prints the response to a GET of a path of the API server that the pod's environment names.
func api(path string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	client.Timeout = 5 * time.Second
	return printAnswer(client, config.Host+path)
}

func get(url string) error {
	return printAnswer(&http.Client{Timeout: 5 * time.Second}, url)
}

func printAnswer(client *http.Client, url string) error {
	_, err := answer(client, url, os.Stdout)
	return err
}

// answer copies the body of a response to a GET to a writer, and returns its size.
func answer(client *http.Client, url string, to io.Writer) (int64, error) {
	response, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers %s", url, response.Status)
	}
	return io.Copy(to, response.Body)
}

func count(url string) error {
	n, err := answer(&http.Client{Timeout: time.Minute}, url, io.Discard)
	if err != nil {
		return fmt.Errorf("after %d bytes: %w", n, err)
	}
	_, err = fmt.Println(n)
	return err
}

// datagram sends a UDP datagram up to five times, because any can be lost, until the server returns it.
func datagram(address, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	sent, received := bytes.Repeat([]byte("liqo"), (n+3)/4)[:n], make([]byte, n+1)
	for range 5 {
		if _, err := conn.Write(sent); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		var got int
		if got, err = conn.Read(received); err == nil {
			if !bytes.Equal(received[:got], sent) {
				return fmt.Errorf("%d bytes were returned, not the %d that were sent", got, n)
			}
			_, err = fmt.Println(got)
			return err
		}
	}
	return fmt.Errorf("no reply to 5 datagrams of %d bytes to %s", n, address)
}

// beat sends a datagram periodically, and prints a line when the first one is answered. After stdin
// has ended, it waits for one more answer, and prints the longest time between two answers.
func beat(address string) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	ended, answers := make(chan struct{}), make(chan time.Time)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	go func() {
		received := make([]byte, 64)
		for {
			_, err := conn.Read(received)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil { // the error of an ICMP message is ignored
				answers <- time.Now()
			}
		}
	}()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	var sent, answered int
	var last time.Time
	var longest time.Duration
	over := false
	for {
		select {
		case <-ticker.C:
			if _, err := conn.Write([]byte("liqo")); err == nil {
				sent++
			}
		case now := <-answers:
			if answered++; answered == 1 {
				fmt.Println("beating")
			} else {
				longest = max(longest, now.Sub(last))
			}
			last = now
			if over {
				_, err := fmt.Printf("%d of %d datagrams were returned, longest gap %s.\n", answered, sent,
					longest.Round(time.Millisecond))
				return err
			}
		case <-ended:
			ended, over = nil, true
		}
	}
}

func lookup(name string) error {
	addresses, err := net.DefaultResolver.LookupHost(context.Background(), name)
	if err != nil {
		return err
	}
	slices.Sort(addresses)
	_, err = fmt.Println(strings.Join(addresses, "\n"))
	return err
}

// printSizes prints the size of the terminal whenever it changes, until stdin ends. The end of
// stdin is the only sign that the user of an executed program has disconnected.
func printSizes() error {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	for {
		rows, columns, err := terminalSize(os.Stdout)
		if err != nil {
			return err
		}
		fmt.Printf("size %d %d\n", rows, columns)
		select {
		case <-changed:
		case <-ended:
			return nil
		}
	}
}
