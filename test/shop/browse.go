// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"log/slog"
	"net/http"
	"os"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// Addresses of the other services of the shop.
var (
	catalogTarget = env("CATALOG", "catalog:9090")
	pricesTarget  = env("PRICES", "prices:9090")
	paymentTarget = env("PAYMENT", "payment:9090")
	recommendURL  = env("RECOMMEND", "http://recommend")
	cartURL       = env("CART", "http://cart")
	ordersURL     = env("ORDERS", "http://orders")
	shippingURL   = env("SHIPPING", "http://shipping")
	// The stock is a StatefulSet with a headless Service, so this is the address of its first pod.
	stockURL = env("STOCK", "http://stock-0.stock:8080")
)

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<title>{{.Title}}</title>
<h1>{{.Title}}</h1>
<ul>
{{- range .Products}}
<li>{{.Name}}: {{.Price}}, {{.Stock}} left</li>
{{- end}}
</ul>
<p>Today we recommend {{.Recommended}}.</p>
<p>{{.InCart}} in the cart. Served by {{.Host}}.</p>
`))

type product struct {
	Name, Price string
	Stock       int
}

// front serves the web page of the shop, and forwards requests to the cart and the orders.
func front(ctx context.Context) error {
	return serve(ctx, map[string]http.Handler{
		"GET /{$}": http.HandlerFunc(showPage),
		"POST /cart": handler(func(r *http.Request) (any, error) {
			return ask[[]string](r.Context(), http.MethodPost, cartURL+"/?"+query("product", r.URL.Query().Get("product")))
		}),
		"POST /checkout": handler(func(r *http.Request) (any, error) {
			return ask[[]order](r.Context(), http.MethodPost, ordersURL+"/")
		}),
	})
}

func showPage(w http.ResponseWriter, r *http.Request) {
	view := struct {
		Title, Recommended, Host string
		Products                 []product
		InCart                   int
	}{Title: env("TITLE", "A shop")}
	err := func() (err error) {
		if view.Host, err = os.Hostname(); err != nil {
			return err
		}
		if view.Products, err = browse(r.Context()); err != nil {
			return err
		}
		in, err := ask[[]string](r.Context(), http.MethodGet, cartURL+"/")
		if err != nil {
			return err
		}
		view.InCart = len(in)
		view.Recommended, err = ask[string](r.Context(), http.MethodGet, recommendURL+"/")
		return err
	}()
	if err != nil {
		slog.Error("no page", "error", err)
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	slog.Info("showed the page")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// An error means that the client has disconnected.
	_ = page.Execute(w, view)
}

// browse returns all products with their prices and stock, from the other services.
func browse(ctx context.Context) ([]product, error) {
	listed, err := call(ctx, catalogTarget, "/shop.Catalog/List", nil)
	if err != nil {
		return nil, err
	}
	left, err := ask[map[string]int](ctx, http.MethodGet, stockURL+"/")
	if err != nil {
		return nil, err
	}
	var products []product
	names, _ := listed["products"].([]any)
	for _, name := range names {
		price, err := call(ctx, pricesTarget, "/shop.Prices/Of", map[string]any{"product": name})
		if err != nil {
			return nil, err
		}
		products = append(products, product{fmt.Sprint(name), fmt.Sprint(price["amount"], " ", price["currency"]),
			left[fmt.Sprint(name)]})
	}
	return products, nil
}

// catalog serves the products in the file whose path is in the variable PRODUCTS, from a ConfigMap. The file is a JSON
// array of objects with the name and the net price in cents of a product.
func catalog(ctx context.Context) error {
	return serveRPC(ctx, "shop.Catalog", map[string]method{
		"List": func(context.Context, *structpb.Struct) (map[string]any, error) {
			products, err := products()
			if err != nil {
				return nil, err
			}
			var names []any
			for _, p := range products {
				names = append(names, p.Name)
			}
			return map[string]any{"products": names}, nil
		},
	})
}

// prices serves the gross price of each product. The tax in percent is in the variable TAX, from a
// ConfigMap.
func prices(ctx context.Context) error {
	return serveRPC(ctx, "shop.Prices", map[string]method{
		"Of": func(_ context.Context, in *structpb.Struct) (map[string]any, error) {
			products, err := products()
			if err != nil {
				return nil, err
			}
			var tax int
			if _, err := fmt.Sscan(env("TAX", "0"), &tax); err != nil {
				return nil, fmt.Errorf("TAX: %w", err)
			}
			wanted := in.Fields["product"].GetStringValue()
			for _, p := range products {
				if p.Name == wanted {
					cents := p.Cents * (100 + tax) / 100
					return map[string]any{"amount": fmt.Sprintf("%d.%02d", cents/100, cents%100),
						"currency": env("CURRENCY", "EUR")}, nil
				}
			}
			return nil, grpcstatus.Errorf(codes.NotFound, "there is no product %q", wanted)
		},
	})
}

type priced struct {
	Name  string `json:"name"`
	Cents int    `json:"cents"`
}

func products() ([]priced, error) {
	file := env("PRODUCTS", "/etc/shop/products.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var products []priced
	if err := json.Unmarshal(text, &products); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return products, nil
}

// recommend serves the name of one product. Each pod of the service recommends its own.
func recommend(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	taste := fnv.New32a()
	taste.Write([]byte(host))
	return serve(ctx, map[string]http.Handler{
		"GET /{$}": handler(func(r *http.Request) (any, error) {
			listed, err := call(r.Context(), catalogTarget, "/shop.Catalog/List", nil)
			if err != nil {
				return nil, err
			}
			names, _ := listed["products"].([]any)
			if len(names) == 0 {
				return "nothing", nil
			}
			return names[int(taste.Sum32())%len(names)], nil
		}),
	})
}
