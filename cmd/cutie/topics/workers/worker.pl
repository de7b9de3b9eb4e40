#!/usr/bin/perl
# Uncompresses gzip files: perl worker.pl [BASE QUEUE]
use strict; use warnings; use Digest::SHA qw(sha256_base64); use HTTP::Tiny; use IO::Uncompress::Gunzip qw(gunzip $GunzipError);
my ($base, $queue) = @ARGV ? @ARGV : ("http://127.0.0.1:8080/", "jobs");
my $http = HTTP::Tiny->new(timeout => 90);
while (1) {
    my $got = $http->post("${base}consume/$queue?wait=20&lease=30", {headers => {Accept => "application/octet-stream"}});
    if ($got->{status} != 200) { # 204: no job came
        if ($got->{status} != 204) { warn "$got->{status} $got->{reason}\n"; sleep 1 }
        next;
    }
    my ($job) = $got->{headers}{"content-location"} =~ m{([^/]+)$};
    my %lease = ("Cutie-Lease" => $got->{headers}{"cutie-lease"});
    my %outcome = (outcome => "completed");
    my ($sum) = ($got->{headers}{"repr-digest"} // "") =~ m{^sha-256=:([^:=]+)};
    if (($sum // "") ne sha256_base64($got->{content})) {
        %outcome = (outcome => "error", type => "transient", message => "damaged");
    } elsif (gunzip(\$got->{content} => \my $text, Transparent => 0)) {
        my $put = $http->put("${base}result/$queue/$job/text", {headers => \%lease, content => $text});
        if (!$put->{success}) { warn "$job: $put->{status}\n"; next } # the job comes again
    } else {
        %outcome = (outcome => "error", type => "fatal", message => $GunzipError);
    }
    my $said = $http->post("${base}outcome/$queue/$job?" . $http->www_form_urlencode(\%outcome), {headers => \%lease});
    warn "$job: $said->{status}\n" unless $said->{success};
}
