// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain runs a service of the shop instead of the tests in processes that a test has started for
// it.
func TestMain(m *testing.M) {
	if os.Getenv("SHOP_TEST_ROLE") != "" {
		main()
	}
	os.Exit(m.Run())
}

// town has the services of one test. Each service listens on a loopback address of its own.
type town struct {
	t           *testing.T
	environment []string
	addresses   map[string]string
}

func newTown(t *testing.T) *town {
	dir := t.TempDir()
	products := filepath.Join(dir, "products.json")
	if err := os.WriteFile(products, []byte(`[{"name": "bread", "cents": 250}, {"name": "wine & cheese", "cents": 1200}]`),
		0o600); err != nil {
		t.Fatal(err)
	}
	s := &town{t: t, addresses: map[string]string{}, environment: append(os.Environ(),
		"SHOP_TEST_ROLE=1", "PRODUCTS="+products, "DATA="+dir, "TAX=10", "PAYMENT_KEY=secret",
		"TITLE=The corner shop", "COUNT=2")}
	a, b := rand.IntN(200)+20, rand.IntN(250)+1
	for i, role := range slices.Sorted(maps.Keys(roles)) {
		address := fmt.Sprintf("127.%d.%d.%d:8080", a, b, i+1)
		s.addresses[role] = address
		if slices.Contains([]string{"catalog", "prices", "payment"}, role) {
			s.environment = append(s.environment, strings.ToUpper(role)+"="+address)
		} else {
			s.environment = append(s.environment, strings.ToUpper(role)+"=http://"+address)
		}
	}
	return s
}

func (s *town) command(role string) *exec.Cmd {
	command := exec.CommandContext(s.t.Context(), os.Args[0], role)
	command.Env = append(slices.Clone(s.environment), "ADDRESS="+s.addresses[role])
	command.Stdout, command.Stderr = s.t.Output(), s.t.Output()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 5 * time.Second
	return command
}

// open starts a service, and waits until it listens. end sends a signal to the service, and waits
// until it ends.
func (s *town) open(role string) (end func(os.Signal) error) {
	s.t.Helper()
	command := s.command(role)
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	end = func(signal os.Signal) error {
		// An error of a process that has ended already is returned by Wait.
		_ = command.Process.Signal(signal)
		return <-ended
	}
	deadline, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	for {
		connection, err := net.DialTimeout("tcp", s.addresses[role], time.Second)
		if err == nil {
			connection.Close()
			return end
		}
		select {
		case err := <-ended:
			s.t.Fatalf("%s ended: %v", role, err)
		case <-deadline.Done():
			s.t.Fatalf("%s does not listen: %v", role, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *town) send(method, role, path string) (int, string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.addresses[role]+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(text))
}

func TestTheWholeShopSells(t *testing.T) {
	s := newTown(t)
	for _, role := range []string{"front", "catalog", "prices", "recommend", "cart", "orders", "payment",
		"shipping", "meter"} {
		s.open(role)
	}
	endStock := s.open("stock")
	for _, work := range []string{"seed", "report"} {
		if err := s.command(work).Run(); err != nil {
			t.Fatalf("%s: %v", work, err)
		}
	}

	code, page := s.send(http.MethodGet, "front", "/")
	if code != http.StatusOK {
		t.Fatalf("the page: %d %s", code, page)
	}
	for _, want := range []string{"The corner shop", "bread: 2.75 EUR, 2 left", "wine &amp; cheese: 13.20 EUR, 2 left",
		"0 in the cart"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}

	for range 2 {
		if code, answer := s.send(http.MethodPost, "front", "/cart?product=wine+%26+cheese"); code != http.StatusOK {
			t.Fatalf("to the cart: %d %s", code, answer)
		}
	}
	code, answer := s.send(http.MethodPost, "front", "/checkout")
	receipt := sign("secret", "wine & cheese", "13.20 EUR")
	one := fmt.Sprintf(`{"product":"wine \u0026 cheese","paid":"13.20 EUR","receipt":"%s","tracking":"pigeon-%s"}`,
		receipt, receipt)
	if diff := cmp.Diff("["+one+","+one+"]", answer); code != http.StatusOK || diff != "" {
		t.Errorf("the orders: %d (-want +got)\n%s", code, diff)
	}

	// Sold products must stay sold after the stock was killed.
	if err := endStock(os.Kill); err == nil {
		t.Error("a killed process ended well")
	}
	s.open("stock")
	s.send(http.MethodPost, "front", "/cart?product=wine+%26+cheese")
	if code, answer := s.send(http.MethodPost, "front", "/checkout"); code != http.StatusConflict ||
		!strings.Contains(answer, "sold out") {
		t.Errorf("a third bottle: %d %s, want a conflict", code, answer)
	}
}

func TestServicesEndOnSIGTERM(t *testing.T) {
	s := newTown(t)
	for _, role := range []string{"cart", "catalog"} {
		if err := s.open(role)(syscall.SIGTERM); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	s := newTown(t)
	for _, role := range []string{"cart", "shipping", "stock"} {
		s.open(role)
	}
	for _, test := range []struct{ role, path string }{
		{"cart", "/"},
		{"shipping", "/"},
		{"stock", "/fill?product=bread&count=-1"},
		{"stock", "/fill?product=bread&count=many"},
	} {
		if code, answer := s.send(http.MethodPost, test.role, test.path); code != http.StatusBadRequest {
			t.Errorf("%s %s: %d %s, want 400", test.role, test.path, code, answer)
		}
	}
}

func TestAnUnknownRoleIsExplained(t *testing.T) {
	var out strings.Builder
	if code := run(t.Context(), []string{"bakery"}, &out); code != 64 ||
		!strings.Contains(out.String(), "cart, catalog, front") {
		t.Errorf("%d %s", code, out.String())
	}
}
