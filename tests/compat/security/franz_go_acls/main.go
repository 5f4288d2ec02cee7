// franz-go's calls about ACLs and delegation tokens, and a login with a token. Reads its settings as JSON from stdin.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type settings struct {
	Bootstrap, Authority, User, Password, Other, OtherPassword string
}

func check(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func connect(given settings, auth scram.Auth) *kadm.Client {
	pem, err := os.ReadFile(given.Authority)
	check("authority", err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(given.Bootstrap),
		kgo.DialTLSConfig(&tls.Config{RootCAs: trusted, ServerName: "localhost"}),
		kgo.SASL(auth.AsSha512Mechanism()),
		kgo.RequestRetries(0),
	)
	check("client", err)
	return kadm.NewClient(client)
}

// The topics that a user sees, without internal ones. A client would remember them, so each call has its own.
func seen(ctx context.Context, given settings, auth scram.Auth) []string {
	fresh := connect(given, auth)
	defer fresh.Close()
	topics, err := fresh.ListTopics(ctx)
	check("list topics", err)
	names := topics.Names()
	sort.Strings(names)
	return names
}

func main() {
	var given settings
	check("settings", json.NewDecoder(os.Stdin).Decode(&given))
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	admin := connect(given, scram.Auth{User: given.User, Pass: given.Password})
	defer admin.Close()
	login := scram.Auth{User: given.Other, Pass: given.OtherPassword}
	other := connect(given, login)
	defer other.Close()
	_, err := admin.CreateTopics(ctx, 1, 1, nil, "go-a", "go-b", "else")
	check("create topics", err)
	fmt.Println("before", seen(ctx, given, login))

	rule := kadm.NewACLs().Topics("go-").ResourcePatternType(kadm.ACLPatternPrefixed).
		Operations(kadm.OpDescribe).Allow("User:" + given.Other).AllowHosts("*")
	created, err := admin.CreateACLs(ctx, rule)
	check("create ACLs", err)
	for _, each := range created {
		check("create ACL", each.Err)
	}
	fmt.Println("allowed", seen(ctx, given, login))
	described, err := admin.DescribeACLs(ctx, rule)
	check("describe ACLs", err)
	for _, each := range described {
		check("describe ACL", each.Err)
		for _, acl := range each.Described {
			fmt.Println("described", acl.Principal, acl.Host, acl.Type, acl.Name, acl.Pattern, acl.Operation, acl.Permission)
		}
	}
	denied, err := other.DescribeACLs(ctx, rule)
	check("describe ACLs without a right", err)
	fmt.Println("denied", denied[0].Err)

	token, err := other.CreateDelegationToken(ctx, kadm.CreateDelegationToken{MaxLifetime: time.Hour})
	check("create a token", err)
	fmt.Println("token", token.Owner.Name, token.MaxTimestamp.Sub(token.IssueTimestamp))
	password := base64.StdEncoding.EncodeToString(token.HMAC)
	byToken := scram.Auth{User: token.TokenID, Pass: password, IsToken: true}
	delegate := connect(given, byToken)
	defer delegate.Close()
	fmt.Println("delegated", seen(ctx, given, byToken))
	_, err = delegate.CreateDelegationToken(ctx, kadm.CreateDelegationToken{MaxLifetime: time.Hour})
	fmt.Println("a token creates none", err != nil)
	_, err = other.RenewDelegationToken(ctx, token.HMAC, time.Minute)
	check("renew", err)
	tokens, err := other.DescribeDelegationTokens(ctx)
	check("describe tokens", err)
	fmt.Println("tokens", len(tokens))
	_, err = other.ExpireDelegationToken(ctx, token.HMAC, -1)
	check("expire", err)

	deleted, err := admin.DeleteACLs(ctx, rule)
	check("delete ACLs", err)
	count := 0
	for _, each := range deleted {
		check("delete ACL", each.Err)
		count += len(each.Deleted)
	}
	fmt.Println("deleted", count)
	fmt.Println("after", seen(ctx, given, login))
}
