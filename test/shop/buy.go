// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"

	"google.golang.org/protobuf/types/known/structpb"
)

// cart keeps the selected products of one customer in memory.
func cart(ctx context.Context) error {
	var mutex sync.Mutex
	chosen := []string{}
	return serve(ctx, map[string]http.Handler{
		"GET /{$}": handler(func(*http.Request) (any, error) {
			mutex.Lock()
			defer mutex.Unlock()
			return slices.Clone(chosen), nil
		}),
		"POST /{$}": handler(func(r *http.Request) (any, error) {
			mutex.Lock()
			defer mutex.Unlock()
			product := r.URL.Query().Get("product")
			if product == "" || len(chosen) >= 100 {
				return nil, status{http.StatusBadRequest, "a cart holds up to 100 products, each with a name: POST /?product=NAME"}
			}
			chosen = append(chosen, product)
			return chosen, nil
		}),
		"DELETE /{$}": handler(func(*http.Request) (any, error) {
			mutex.Lock()
			defer mutex.Unlock()
			taken := chosen
			chosen = []string{}
			return taken, nil
		}),
	})
}

// order is a product that was bought.
type order struct {
	Product  string `json:"product"`
	Paid     string `json:"paid"`
	Receipt  string `json:"receipt"`
	Tracking string `json:"tracking"`
}

// orders empties the cart, and buys its products one after the other.
func orders(ctx context.Context) error {
	return serve(ctx, map[string]http.Handler{
		"POST /{$}": handler(func(r *http.Request) (any, error) {
			chosen, err := ask[[]string](r.Context(), http.MethodDelete, cartURL+"/")
			if err != nil {
				return nil, err
			}
			bought := []order{}
			for _, product := range chosen {
				one, err := buy(r.Context(), product)
				if err != nil {
					return nil, err
				}
				bought = append(bought, one)
			}
			return bought, nil
		}),
	})
}

func buy(ctx context.Context, product string) (order, error) {
	one := order{Product: product}
	price, err := call(ctx, pricesTarget, "/shop.Prices/Of", map[string]any{"product": product})
	if err != nil {
		return one, err
	}
	if _, err := ask[int](ctx, http.MethodPost, stockURL+"/take?"+query("product", product)); err != nil {
		return one, err
	}
	one.Paid = fmt.Sprint(price["amount"], " ", price["currency"])
	receipt, err := call(ctx, paymentTarget, "/shop.Payment/Charge", map[string]any{"amount": one.Paid, "for": product})
	if err != nil {
		return one, err
	}
	one.Receipt = fmt.Sprint(receipt["receipt"])
	one.Tracking, err = ask[string](ctx, http.MethodPost, shippingURL+"/?"+query("receipt", one.Receipt))
	return one, err
}

// payment signs receipts with a key from a Secret.
func payment(ctx context.Context) error {
	key := os.Getenv("PAYMENT_KEY")
	if key == "" {
		return errors.New("PAYMENT_KEY is not set; it is in the Secret payment")
	}
	return serveRPC(ctx, "shop.Payment", map[string]method{
		"Charge": func(_ context.Context, in *structpb.Struct) (map[string]any, error) {
			return map[string]any{"receipt": sign(key, in.Fields["for"].GetStringValue(),
				in.Fields["amount"].GetStringValue())}, nil
		},
	})
}

func sign(key string, parts ...string) string {
	mac := hmac.New(sha256.New, []byte(key))
	for _, part := range parts {
		fmt.Fprintf(mac, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// shipping assigns a parcel number to each receipt.
func shipping(ctx context.Context) error {
	return serve(ctx, map[string]http.Handler{
		"POST /{$}": handler(func(r *http.Request) (any, error) {
			receipt := r.URL.Query().Get("receipt")
			if receipt == "" {
				return nil, status{http.StatusBadRequest, "nothing is shipped without a receipt"}
			}
			return env("CARRIER", "pigeon") + "-" + receipt, nil
		}),
	})
}
