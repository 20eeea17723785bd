// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// shelves keep the number of each product in a file, which outlives the process.
type shelves struct {
	mutex sync.Mutex
	file  string
}

// stock serves the number of each product, which it stores in the directory DATA.
func stock(ctx context.Context) error {
	s := &shelves{file: filepath.Join(env("DATA", "/data"), "stock.json")}
	return serve(ctx, map[string]http.Handler{
		"GET /{$}": handler(func(*http.Request) (any, error) {
			return s.change(func(map[string]int) error { return nil })
		}),
		"POST /fill": handler(func(r *http.Request) (any, error) {
			count, err := strconv.Atoi(r.URL.Query().Get("count"))
			if err != nil || count < 0 {
				return nil, status{http.StatusBadRequest, "count is how many there are: a number that is not negative"}
			}
			return s.change(func(left map[string]int) error {
				left[r.URL.Query().Get("product")] = count
				return nil
			})
		}),
		"POST /take": handler(func(r *http.Request) (any, error) {
			product := r.URL.Query().Get("product")
			left, err := s.change(func(left map[string]int) error {
				if left[product] == 0 {
					return status{http.StatusConflict, fmt.Sprintf("%q is sold out", product)}
				}
				left[product]--
				return nil
			})
			return left[product], err
		}),
	})
}

// change applies change to the numbers of all products and writes them to the file. If change
// returns an error, the file is not written.
func (s *shelves) change(change func(map[string]int) error) (map[string]int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	left := map[string]int{}
	text, err := os.ReadFile(s.file)
	if err == nil {
		err = json.Unmarshal(text, &left)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := change(left); err != nil {
		return nil, err
	}
	if text, err = json.Marshal(left); err != nil {
		return nil, err
	}
	// The file is written under another name and renamed, so that it is complete after a crash.
	if err := os.WriteFile(s.file+".new", text, 0o600); err != nil {
		return nil, err
	}
	return left, os.Rename(s.file+".new", s.file)
}

// seed adds products to the stock once. A Job runs it.
func seed(ctx context.Context) error {
	listed, err := call(ctx, catalogTarget, "/shop.Catalog/List", nil)
	if err != nil {
		return err
	}
	names, _ := listed["products"].([]any)
	for _, name := range names {
		if _, err := ask[map[string]int](ctx, http.MethodPost,
			stockURL+"/fill?"+query("product", fmt.Sprint(name), "count", env("COUNT", "1000"))); err != nil {
			return err
		}
		slog.Info("filled", "product", name)
	}
	return nil
}

// report prints the stock. A CronJob runs it.
func report(ctx context.Context) error {
	left, err := ask[map[string]int](ctx, http.MethodGet, stockURL+"/")
	if err != nil {
		return err
	}
	slog.Info("left", "stock", left)
	return nil
}

// meter prints the load of its node. A DaemonSet runs it on the nodes of its cluster that are not virtual.
func meter(ctx context.Context) error {
	return serve(ctx, map[string]http.Handler{
		"GET /{$}": handler(func(*http.Request) (any, error) {
			text, err := os.ReadFile("/proc/loadavg")
			return string(text), err
		}),
	})
}
